//! The lines of a file that are wanted, out of all that pass by.

use crate::excerpt::{is_binary, whole_start};

/// How much is shown at once.
pub(super) const MOST_LINES: u64 = 2000;
pub(super) const MOST_BYTES: usize = 256 << 10;

/// Collects lines `first` to `last` of a content given in pieces, and counts all of them.
#[derive(Debug)]
pub(super) struct Window {
    first: u64,
    last: u64,
    kept: Vec<u8>,
    /// Where in `kept` the line begins that is being collected.
    line_start: usize,
    /// The number of the line that the next byte belongs to.
    line: u64,
    is_line_begun: bool,
    fullness: Fullness,
    nature: Nature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fullness {
    Room,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Unknown,
    Text,
    Binary,
}

/// What a window held at the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Binary,
    Text(Lines),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    /// The last line shown, `first - 1` if none is.
    pub(super) last: u64,
    pub(super) total: u64,
    /// Whether less than what was asked for is shown, because it is too much.
    pub(super) is_cut: bool,
}

impl Window {
    pub(super) fn new(first: u64, last: Option<u64>) -> Self {
        let most = first.saturating_add(MOST_LINES - 1);
        Self {
            first,
            last: last.map_or(most, |last| last.min(most)),
            kept: Vec::new(),
            line_start: 0,
            line: 1,
            is_line_begun: false,
            fullness: Fullness::Room,
            nature: Nature::Unknown,
        }
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        if self.nature == Nature::Unknown {
            self.nature = match is_binary(piece) {
                true => Nature::Binary,
                false => Nature::Text,
            };
        }
        if self.nature == Nature::Binary {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.keep(part);
            self.is_line_begun = !part.ends_with(b"\n");
            if !self.is_line_begun {
                self.line += 1;
                if self.fullness == Fullness::Room {
                    self.line_start = self.kept.len();
                }
            }
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.fullness == Fullness::Full || self.line < self.first || self.line > self.last {
            return;
        }
        let room = MOST_BYTES - self.kept.len();
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            self.fullness = Fullness::Full;
        }
    }

    /// `asked` is the last line that was asked for, if any was.
    pub(super) fn end(mut self, asked: Option<u64>) -> Seen {
        if self.nature == Nature::Binary {
            return Seen::Binary;
        }
        let total = self.line - 1 + u64::from(self.is_line_begun);
        // A line cut short is left out, unless it is the only one.
        if self.fullness == Fullness::Full {
            match self.line_start {
                0 => {
                    let whole = whole_start(&self.kept).len();
                    self.kept.truncate(whole);
                }
                start => self.kept.truncate(start),
            }
        }
        let ended = self.kept.iter().filter(|byte| **byte == b'\n').count() as u64;
        let open = !self.kept.is_empty() && self.kept.last() != Some(&b'\n');
        let last = self.first - 1 + ended + u64::from(open);
        let wanted = asked.map_or(total, |asked| asked.min(total));
        Seen::Text(Lines {
            bytes: self.kept,
            last,
            total,
            is_cut: self.fullness == Fullness::Full || last < wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(content: &[u8], first: u64, last: Option<u64>) -> (String, u64, u64, bool) {
        // In pieces of two bytes, so that lines are put together.
        let mut window = Window::new(first, last);
        for piece in content.chunks(2) {
            window.take(piece);
        }
        match window.end(last) {
            Seen::Binary => ("binary".into(), 0, 0, false),
            Seen::Text(lines) => (
                String::from_utf8(lines.bytes).unwrap(),
                lines.last,
                lines.total,
                lines.is_cut,
            ),
        }
    }

    #[test]
    fn exactly_the_lines_asked_for_are_kept() {
        let of = |text: &str, last, total, cut| (text.to_owned(), last, total, cut);
        assert_eq!(seen(b"", 1, None), of("", 0, 0, false));
        assert_eq!(seen(b"a", 1, None), of("a", 1, 1, false));
        assert_eq!(seen(b"a\nb\r\nc", 1, None), of("a\nb\r\nc", 3, 3, false));
        assert_eq!(seen(b"a\nb\nc\n", 2, Some(2)), of("b\n", 2, 3, false));
        assert_eq!(seen(b"a\nb\nc\n", 2, Some(9)), of("b\nc\n", 3, 3, false));
        assert_eq!(seen(b"\n\n\n", 3, None), of("\n", 3, 3, false));
        assert_eq!(seen(b"\0a", 1, None), of("binary", 0, 0, false));
    }

    #[test]
    fn what_is_too_much_is_cut_at_a_line_and_said() {
        let many = "x\n".repeat(5000);
        let (text, last, total, cut) = seen(many.as_bytes(), 1, None);
        assert_eq!((text.len(), last, total, cut), (4000, 2000, 5000, true));
        let (_, last, _, cut) = seen(many.as_bytes(), 100, Some(4999));
        assert_eq!((last, cut), (2099, true));
        let long = format!("short\n{}\nend\n", "é".repeat(MOST_BYTES));
        let (text, last, total, cut) = seen(long.as_bytes(), 1, None);
        assert_eq!((text.as_str(), last, total, cut), ("short\n", 1, 3, true));
        let (text, last, _, cut) = seen(long.as_bytes(), 2, None);
        assert_eq!((text.len(), last, cut), (MOST_BYTES, 2, true));
    }
}
