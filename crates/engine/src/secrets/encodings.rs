//! The forms in which a value may appear: raw, escaped for JSON, percent-encoded, base64.

use std::fmt::Write as _;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns every searched form of the value; may contain duplicates.
pub(super) fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    for escaped in [escape_json(value), escape_json_ascii(value)] {
        forms.push(escaped.replace('/', "\\/"));
        forms.push(escape_json(&escaped));
        forms.push(escaped);
    }
    for hex in [HexCase::Upper, HexCase::Lower] {
        let encoded = percent_encode(value, hex);
        forms.push(encoded.replace("%20", "+"));
        forms.push(encoded);
    }
    for alphabet in [STANDARD, URL_SAFE] {
        let whole = base64(value.as_bytes(), alphabet);
        let padding = (4 - whole.len() % 4) % 4;
        forms.push(format!("{whole}{}", "=".repeat(padding)));
        forms.push(whole);
        forms.extend((0..3).map(|offset| base64_within(value.as_bytes(), offset, alphabet)));
    }
    forms
}

/// Minimum length of a single line of a multi-line value to be hidden by itself; shorter lines are
/// too common.
const SHORTEST_LINE: usize = 16;

/// Returns the long lines of a multi-line value. Header and footer lines of a key are not secret.
pub(super) fn secret_lines(value: &str) -> Vec<String> {
    let is_secret = |line: &&str| line.len() >= SHORTEST_LINE && !line.starts_with("-----");
    let mut lines = value.lines().map(str::trim);
    if value.contains('\n') {
        lines
            .by_ref()
            .filter(is_secret)
            .map(str::to_owned)
            .collect()
    } else {
        Vec::new()
    }
}

/// Escapes as inside the quotes of a JSON string.
fn escape_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Like [`escape_json`], with only ASCII in the output.
fn escape_json_ascii(value: &str) -> String {
    let mut escaped = String::new();
    for character in escape_json(value).chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Case of the digits of an encoded byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HexCase {
    Upper,
    Lower,
}

fn percent_encode(value: &str, hex: HexCase) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        let _ = match (byte, hex) {
            (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~', _) => {
                write!(encoded, "{}", char::from(byte))
            }
            (_, HexCase::Upper) => write!(encoded, "%{byte:02X}"),
            (_, HexCase::Lower) => write!(encoded, "%{byte:02x}"),
        };
    }
    encoded
}

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=group.len() {
            let index = bits >> (18 - 6 * place) & 0x3f;
            encoded.push(char::from(alphabet[index as usize]));
        }
    }
    encoded
}

/// Returns the base64 characters of the value that do not depend on its surroundings, when `offset`
/// bytes (modulo three) precede it.
fn base64_within(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> String {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value);
    let encoded = base64(&bytes, alphabet);
    let first = (offset * 8).div_ceil(6);
    let behind_last = bytes.len() * 8 / 6;
    encoded[first..behind_last].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_follow_the_standards() {
        let forms = forms("pä ss/\"w\"?");
        for form in [
            "pä ss/\"w\"?",
            "pä ss/\\\"w\\\"?",
            "pä ss\\/\\\"w\\\"?",
            "p\\u00e4 ss/\\\"w\\\"?",
            "pä ss/\\\\\\\"w\\\\\\\"?",
            "p%C3%A4%20ss%2F%22w%22%3F",
            "p%c3%a4+ss%2f%22w%22%3f",
            "cMOkIHNzLyJ3Ij8=",
            "cMOkIHNzLyJ3Ij8",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form}: {forms:?}");
        }
    }

    #[test]
    fn base64_follows_the_standard() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
            ("~~~???", "fn5+Pz8/"),
        ] {
            assert_eq!(base64(text.as_bytes(), STANDARD), encoded);
        }
        assert_eq!(base64(b"~~~???", URL_SAFE), "fn5-Pz8_");
    }

    #[test]
    fn inner_base64_does_not_depend_on_neighbours() {
        let value = b"correct horse battery";
        for before in 0..7 {
            for after in 0..4 {
                for filler in [0, 0x55, 0xff] {
                    let mut bytes = vec![filler; before];
                    bytes.extend_from_slice(value);
                    bytes.extend(vec![filler; after]);
                    let whole = base64(&bytes, STANDARD);
                    let part = base64_within(value, before % 3, STANDARD);
                    assert!(whole.contains(&part), "{before} {after} {filler}");
                    assert!(part.len() + 2 >= value.len() * 4 / 3);
                }
            }
        }
    }
}
