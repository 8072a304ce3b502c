//! Masks, which replace secrets: their format, and how to find them.
//!
//! Masks belong in storage, logs and prompts. In a file, a command or an argument a mask would be
//! used as the secret itself, so everything on its way there is searched for masks, regardless of
//! which secrets this process knows.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use serde_json::Value;

pub const MASK_BEGINS: &str = "«secret:";
pub const MASK_ENDS: &str = "»";

/// The mask of a secret without a name.
pub const NAMELESS: &str = "«secret»";

/// Common start of masks with and without a name.
const STEM: &str = "«secret";

/// Maximum length of the name in a mask, in bytes.
const NAME_MAXIMUM: usize = 256;

/// Maximum number of different masks a scanner remembers.
const FOUND_MAXIMUM: usize = 64;

/// Returns the mask of the secret of that name.
pub fn mask(name: &str) -> String {
    format!("{MASK_BEGINS}{name}{MASK_ENDS}")
}

/// Returns the error message for content that is not executed because it contains this mask.
pub fn refusal_message(mask: &str) -> String {
    format!(
        "{mask} represents a secret that is not shown, and must not be written into a file, a \
         command or an argument: leave the secret as it is and change what is around it"
    )
}

/// Returns the first mask in the text.
pub fn find_mask(text: &str) -> Option<&str> {
    mask_range(text).map(|range| &text[range])
}

/// Returns the range of the first mask in the text.
pub fn mask_range(text: &str) -> Option<Range<usize>> {
    let mut from = 0;
    while let Some(found) = text[from..].find(STEM) {
        let start = from + found;
        from = start + STEM.len();
        if let MaskEnd::Complete(length) = mask_end(&text.as_bytes()[from..]) {
            return Some(start..from + length);
        }
    }
    None
}

/// Returns the first mask in the strings and keys of a value.
pub fn find_mask_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => find_mask(text),
        Value::Array(items) => items.iter().find_map(find_mask_in),
        Value::Object(map) => map
            .iter()
            .find_map(|(key, item)| find_mask(key).or_else(|| find_mask_in(item))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

pub fn mask_name(mask: &str) -> &str {
    let name = mask.strip_prefix(MASK_BEGINS).unwrap_or(mask);
    name.strip_suffix(MASK_ENDS).unwrap_or(name)
}

/// Classification of the bytes after the stem of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaskEnd {
    /// The rest of a mask, with its length in bytes.
    Complete(usize),
    /// An incomplete rest of a mask.
    Open,
    /// Not a mask.
    Broken,
}

fn mask_end(bytes: &[u8]) -> MaskEnd {
    let end = MASK_ENDS.as_bytes();
    if bytes.starts_with(end) {
        return MaskEnd::Complete(end.len());
    }
    if end.starts_with(bytes) {
        return MaskEnd::Open;
    }
    match bytes.split_first() {
        Some((b':', name)) => name_end(name),
        _ => MaskEnd::Broken,
    }
}

/// The same for the bytes after the colon.
fn name_end(bytes: &[u8]) -> MaskEnd {
    for length in 0..=NAME_MAXIMUM {
        let rest = &bytes[length.min(bytes.len())..];
        if rest.starts_with(MASK_ENDS.as_bytes()) {
            return match length {
                0 => MaskEnd::Broken,
                length => MaskEnd::Complete(1 + length + MASK_ENDS.len()),
            };
        }
        match rest.first() {
            None => return MaskEnd::Open,
            Some(byte) if byte.is_ascii_control() => return MaskEnd::Broken,
            Some(_) if rest.starts_with("«".as_bytes()) => return MaskEnd::Broken,
            Some(_) => {}
        }
    }
    MaskEnd::Broken
}

/// Finds masks in bytes that arrive in pieces. Uses no more memory than one mask needs.
#[derive(Debug, Default)]
pub struct MaskScanner {
    /// The end of the input so far, if a mask may start in it.
    open: Vec<u8>,
    found: BTreeSet<String>,
}

impl MaskScanner {
    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let mut bytes = std::mem::take(&mut self.open);
        bytes.extend_from_slice(piece);
        let stem = STEM.as_bytes();
        let mut from = 0;
        while let Some(start) = find_bytes(&bytes[from..], stem).map(|at| from + at) {
            from = start + stem.len();
            match mask_end(&bytes[from..]) {
                MaskEnd::Complete(length) => {
                    let mask = String::from_utf8_lossy(&bytes[start..from + length]);
                    if self.found.len() < FOUND_MAXIMUM {
                        self.found.insert(mask.into_owned());
                    }
                }
                // The mask may be completed by the next piece.
                MaskEnd::Open => {
                    self.open = bytes.split_off(start);
                    return;
                }
                MaskEnd::Broken => {}
            }
        }
        let kept = bytes.len().saturating_sub(stem.len() - 1).max(from);
        self.open = bytes.split_off(kept);
    }

    /// Returns the masks that were found.
    pub fn finish(self) -> BTreeSet<String> {
        self.found
    }
}

impl io::Write for MaskScanner {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.push(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn find_bytes(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let first = *pattern.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(pattern) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_is_found_anywhere() {
        for (text, found) in [
            ("«secret:K»", Some("«secret:K»")),
            (
                "key=«secret:provider.openai.api-key»\n",
                Some("«secret:provider.openai.api-key»"),
            ),
            ("«secret:«secret:K»", Some("«secret:K»")),
            ("«secret:» «secret:A\nB» «secret:C»", Some("«secret:C»")),
            ("«secret secret:K «secret:K", None),
            ("x «secret» «secret:K»", Some("«secret»")),
            ("", None),
        ] {
            assert_eq!(find_mask(text), found, "{text}");
        }
        let long = mask(&"K".repeat(NAME_MAXIMUM + 1));
        assert_eq!(find_mask(&long), None);
        let value = json!({"a": [1, {"b": "x «secret:K»"}]});
        assert_eq!(find_mask_in(&value), Some("«secret:K»"));
        assert_eq!(find_mask_in(&json!({"«secret:K»": 1})), Some("«secret:K»"));
        assert_eq!(find_mask_in(&json!({"a": [1, null, "b"]})), None);
    }

    #[test]
    fn a_scanner_keeps_no_more_than_a_mask() {
        let mut scanner = MaskScanner::default();
        for _ in 0..1000 {
            scanner.push("«secret:".as_bytes());
            scanner.push(&[b'x'; 100]);
            assert!(
                scanner.open.len() <= 2 * (NAME_MAXIMUM + 16),
                "{}",
                scanner.open.len()
            );
        }
        scanner.push("«secret:K»".as_bytes());
        assert_eq!(scanner.finish(), BTreeSet::from(["«secret:K»".to_owned()]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn masks_are_found_across_piece_boundaries(
            parts in prop::collection::vec(
                prop_oneof!["[a«»:\n]{0,4}", Just("«secret:".to_owned()), Just("«secret:AB»".to_owned()),
                    Just("«secret:C»".to_owned()), Just("«secret»".to_owned())], 0..12),
            cuts in prop::collection::vec(0_usize..9, 0..30),
        ) {
            let text = parts.concat();
            let mut whole = MaskScanner::default();
            whole.push(text.as_bytes());
            let mut pieces = MaskScanner::default();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            pieces.push(rest);
            let found = whole.finish();
            prop_assert_eq!(find_mask(&text).is_some(), !found.is_empty());
            prop_assert_eq!(found, pieces.finish());
        }
    }
}
