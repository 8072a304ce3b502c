//! Pieces of content that are fit to be shown: bounded, and whole characters only.

/// How many of the first bytes decide whether content is text.
const SNIFF_BYTES: usize = 8 << 10;

/// Whether content that begins like this is no text.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start[..start.len().min(SNIFF_BYTES)].contains(&0)
}

/// The beginning of a text, at most this many bytes.
pub(crate) fn truncate_str(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Bytes without the part of a character that their end cuts off.
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

/// Bytes without the part of a character that their beginning cuts off.
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
