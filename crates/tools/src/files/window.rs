//! Selects the requested lines of a file while all of it is read.

use crate::excerpt::{is_binary, trim_partial_end};

/// Maximum number of lines and bytes shown at once.
pub(super) const MAX_LINES: u64 = 2000;
pub(super) const MAX_BYTES: usize = 256 << 10;

/// Collects lines `first` to `last` of a content given in chunks, and counts all lines.
#[derive(Debug)]
pub(super) struct Window {
    first: u64,
    last: u64,
    kept: Vec<u8>,
    /// Offset in `kept` of the line that is being collected.
    line_start: usize,
    /// The number of the line that the next byte belongs to.
    line: u64,
    is_mid_line: bool,
    fill: WindowFill,
    content_kind: WindowContentKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowFill {
    Room,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowContentKind {
    Unknown,
    Text,
    Binary,
}

/// The final content of a window.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WindowContent {
    Binary,
    Text(WindowLines),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct WindowLines {
    pub(super) bytes: Vec<u8>,
    /// The last line shown; `first - 1` if none is.
    pub(super) last: u64,
    pub(super) total: u64,
    /// Whether less than requested is shown because it is too long.
    pub(super) is_truncated: bool,
}

impl Window {
    pub(super) fn new(first: u64, last: Option<u64>) -> Self {
        let most = first.saturating_add(MAX_LINES - 1);
        Self {
            first,
            last: last.map_or(most, |last| last.min(most)),
            kept: Vec::new(),
            line_start: 0,
            line: 1,
            is_mid_line: false,
            fill: WindowFill::Room,
            content_kind: WindowContentKind::Unknown,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.content_kind == WindowContentKind::Unknown {
            self.content_kind = if is_binary(piece) {
                WindowContentKind::Binary
            } else {
                WindowContentKind::Text
            };
        }
        if self.content_kind == WindowContentKind::Binary {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.keep(part);
            self.is_mid_line = !part.ends_with(b"\n");
            if !self.is_mid_line {
                self.line += 1;
                if self.fill == WindowFill::Room {
                    self.line_start = self.kept.len();
                }
            }
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.fill == WindowFill::Full || self.line < self.first || self.line > self.last {
            return;
        }
        let room = MAX_BYTES - self.kept.len();
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            self.fill = WindowFill::Full;
        }
    }

    /// `requested_last` is the last line that was requested, if any.
    pub(super) fn finish(mut self, requested_last: Option<u64>) -> WindowContent {
        if self.content_kind == WindowContentKind::Binary {
            return WindowContent::Binary;
        }
        let total = self.line - 1 + u64::from(self.is_mid_line);
        // An incomplete line is left out, unless it is the only one.
        if self.fill == WindowFill::Full {
            match self.line_start {
                0 => {
                    let whole = trim_partial_end(&self.kept).len();
                    self.kept.truncate(whole);
                }
                start => self.kept.truncate(start),
            }
        }
        let ended = self.kept.iter().filter(|byte| **byte == b'\n').count() as u64;
        let open = !self.kept.is_empty() && self.kept.last() != Some(&b'\n');
        let last = self.first - 1 + ended + u64::from(open);
        let wanted = requested_last.map_or(total, |asked| asked.min(total));
        WindowContent::Text(WindowLines {
            bytes: self.kept,
            last,
            total,
            is_truncated: self.fill == WindowFill::Full || last < wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_window(content: &[u8], first: u64, last: Option<u64>) -> (String, u64, u64, bool) {
        // In chunks of two bytes, to test that lines are joined.
        let mut window = Window::new(first, last);
        for piece in content.chunks(2) {
            window.push(piece);
        }
        match window.finish(last) {
            WindowContent::Binary => ("binary".into(), 0, 0, false),
            WindowContent::Text(lines) => (
                String::from_utf8(lines.bytes).unwrap(),
                lines.last,
                lines.total,
                lines.is_truncated,
            ),
        }
    }

    #[test]
    fn exactly_the_requested_lines_are_kept() {
        let of = |text: &str, last, total, cut| (text.to_owned(), last, total, cut);
        assert_eq!(read_window(b"", 1, None), of("", 0, 0, false));
        assert_eq!(read_window(b"a", 1, None), of("a", 1, 1, false));
        assert_eq!(
            read_window(b"a\nb\r\nc", 1, None),
            of("a\nb\r\nc", 3, 3, false)
        );
        assert_eq!(
            read_window(b"a\nb\nc\n", 2, Some(2)),
            of("b\n", 2, 3, false)
        );
        assert_eq!(
            read_window(b"a\nb\nc\n", 2, Some(9)),
            of("b\nc\n", 3, 3, false)
        );
        assert_eq!(read_window(b"\n\n\n", 3, None), of("\n", 3, 3, false));
        assert_eq!(read_window(b"\0a", 1, None), of("binary", 0, 0, false));
    }

    #[test]
    fn long_content_is_truncated_at_a_line() {
        let many = "x\n".repeat(5000);
        let (text, last, total, cut) = read_window(many.as_bytes(), 1, None);
        assert_eq!((text.len(), last, total, cut), (4000, 2000, 5000, true));
        let (_, last, _, cut) = read_window(many.as_bytes(), 100, Some(4999));
        assert_eq!((last, cut), (2099, true));
        let long = format!("short\n{}\nend\n", "é".repeat(MAX_BYTES));
        let (text, last, total, cut) = read_window(long.as_bytes(), 1, None);
        assert_eq!((text.as_str(), last, total, cut), ("short\n", 1, 3, true));
        let (text, last, _, cut) = read_window(long.as_bytes(), 2, None);
        assert_eq!((text.len(), last, cut), (MAX_BYTES, 2, true));
    }
}
