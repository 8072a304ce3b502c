//! Excerpts of content that can be shown: bounded, and without partial characters.

/// Number of leading bytes that decide whether content is text.
const SNIFF_BYTES: usize = 8 << 10;

/// Returns whether content with this start is not text.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start[..start.len().min(SNIFF_BYTES)].contains(&0)
}

/// Returns the start of a text, at most this many bytes.
pub(crate) fn truncate_str(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Removes a partial character at the end.
pub(crate) fn trim_partial_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return bytes,
        };
        return if length > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Removes a partial character at the start.
pub(crate) fn trim_partial_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3);
    let cut = rest.take_while(|byte| matches!(byte, 0x80..=0xBF)).count();
    &bytes[cut..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_never_split() {
        let text = "aé漢🦀z";
        for at in 0..=text.len() {
            let (start, end) = text.as_bytes().split_at(at);
            assert!(std::str::from_utf8(trim_partial_end(start)).is_ok(), "{at}");
            assert!(std::str::from_utf8(trim_partial_start(end)).is_ok(), "{at}");
            assert!(truncate_str(text, at).len() <= at);
        }
        assert_eq!(trim_partial_end(b"\xff\xfe"), b"\xff\xfe");
        assert_eq!(trim_partial_start(b"\x80\x80\x80\x80"), b"\x80");
    }
}
