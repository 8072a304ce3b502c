//! A patch in front of people: what is new green, what is gone red.

use super::choice::Colour;
use super::layout::painted;
use super::model::Tone;
use super::text::harmless;

/// The patch as text; bytes that are none are shown as such.
pub(super) fn shown(patch: &[u8], colour: Colour) -> String {
    let text = String::from_utf8_lossy(patch);
    let mut shown = String::with_capacity(text.len());
    let mut place = Place::Head;
    for line in text.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            place = Place::Head;
        } else if line.starts_with("@@ ") {
            place = Place::Hunk;
        }
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        shown.push_str(&painted(&harmless(line), place.tone(line), colour));
        shown.push_str(end);
    }
    shown
}

#[derive(Clone, Copy)]
enum Place {
    Head,
    Hunk,
}

impl Place {
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
    fn lines_have_the_colour_of_what_they_say_and_steer_nothing() {
        let patch =
            b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- a\n-\x1b[2J\n+b\xff\n c";
        assert_eq!(
            shown(patch, Colour::No),
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- a\n-\\x1b[2J\n+b\u{fffd}\n c"
        );
        let colours = shown(patch, Colour::Yes);
        let lines: Vec<&str> = colours.lines().collect();
        assert!(lines[1].starts_with("\x1b[1m--- a/x"), "{:?}", lines[1]);
        assert!(lines[4].starts_with("\x1b[31m--- a"), "{:?}", lines[4]);
        assert!(lines[6].starts_with("\x1b[32m+b"), "{:?}", lines[6]);
        assert_eq!(lines[7], " c");
    }
}
