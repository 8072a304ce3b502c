//! Patches on a terminal: inserted lines green, deleted lines red.

use super::layout::paint;
use super::model::Tone;
use super::render_options::ColourMode;
use super::text::escape_verbatim;

/// Returns the patch as text; invalid UTF-8 is replaced.
pub(super) fn render(patch: &[u8], colour: ColourMode) -> String {
    let text = String::from_utf8_lossy(patch);
    let mut shown = String::with_capacity(text.len());
    let mut place = PatchSection::Head;
    for line in text.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            place = PatchSection::Head;
        } else if line.starts_with("@@ ") {
            place = PatchSection::Hunk;
        }
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        shown.push_str(&paint(&escape_verbatim(line), place.tone(line), colour));
        shown.push_str(end);
    }
    shown
}

#[derive(Clone, Copy)]
enum PatchSection {
    Head,
    Hunk,
}

impl PatchSection {
    fn tone(self, line: &str) -> Tone {
        match (self, line.as_bytes().first()) {
            (_, None) => Tone::Normal,
            (Self::Head, _) => Tone::Strong,
            (Self::Hunk, Some(b'+')) => Tone::Good,
            (Self::Hunk, Some(b'-')) => Tone::Bad,
            (Self::Hunk, Some(b'@' | b'\\')) => Tone::Faint,
            (Self::Hunk, Some(_)) => Tone::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_lines_are_coloured_and_escaped() {
        let patch =
            b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- a\n-\x1b[2J\n+b\xff\n c";
        assert_eq!(
            render(patch, ColourMode::No),
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- a\n-\\x1b[2J\n+b\u{fffd}\n c"
        );
        let colours = render(patch, ColourMode::Yes);
        let lines: Vec<&str> = colours.lines().collect();
        assert!(lines[1].starts_with("\x1b[1m--- a/x"), "{:?}", lines[1]);
        assert!(lines[4].starts_with("\x1b[31m--- a"), "{:?}", lines[4]);
        assert!(lines[6].starts_with("\x1b[32m+b"), "{:?}", lines[6]);
        assert_eq!(lines[7], " c");
    }
}
