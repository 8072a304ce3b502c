//! Finds text that looks like a credential, with small scanners over bytes.
//!
//! All delimiters are ASCII, so every range starts and ends on a character boundary. The scan
//! continues after a match, and no scanner looks twice at bytes that it rejected, so the whole is
//! linear.

use std::ops::Range;

use super::url::is_secret_setting;

/// The longest name of a query parameter.
const SETTING_MAXIMUM: usize = 40;
/// The maximum distance of `PRIVATE KEY` from `-----BEGIN`.
const PEM_LABEL_MAXIMUM: usize = 64;

/// A token that starts with a vendor's prefix.
struct PrefixedToken {
    mark: &'static str,
    /// The minimum number of characters after the prefix.
    min_length: usize,
    alphabet: fn(u8) -> bool,
}

const PREFIXED_TOKENS: [PrefixedToken; 14] = [
    token("sk-", 16, is_word_or_hyphen),
    token("ghp_", 20, is_word),
    token("gho_", 20, is_word),
    token("ghu_", 20, is_word),
    token("ghs_", 20, is_word),
    token("ghr_", 20, is_word),
    token("github_pat_", 20, is_word),
    token("AKIA", 16, is_upper_or_digit),
    token("ASIA", 16, is_upper_or_digit),
    token("xoxb-", 10, is_word_or_hyphen),
    token("xoxp-", 10, is_word_or_hyphen),
    token("xoxa-", 10, is_word_or_hyphen),
    token("xoxr-", 10, is_word_or_hyphen),
    token("xoxs-", 10, is_word_or_hyphen),
];

const fn token(mark: &'static str, least: usize, alphabet: fn(u8) -> bool) -> PrefixedToken {
    PrefixedToken {
        mark,
        min_length: least,
        alphabet,
    }
}

/// Returns all ranges that look like credentials, sorted and without overlaps.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut findings = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        match find_at(bytes, position) {
            Some(range) => {
                position = range.end;
                findings.push(range);
            }
            None => position += 1,
        }
    }
    findings
}

fn find_at(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    match bytes[position] {
        b':' => password_in_url(bytes, position),
        b'?' | b'&' => secret_setting(bytes, position),
        b'-' => private_key(bytes, position),
        _ if position > 0 && is_word_or_hyphen(bytes[position - 1]) => None,
        b'e' => web_token(bytes, position),
        b'b' | b'B' => bearer(bytes, position),
        b's' | b'g' | b'A' | b'x' => prefixed(bytes, position),
        _ => None,
    }
}

fn prefixed(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    let rest = &bytes[position..];
    let kind = PREFIXED_TOKENS
        .iter()
        .find(|kind| rest.starts_with(kind.mark.as_bytes()))?;
    let length = run_length(&rest[kind.mark.len()..], kind.alphabet);
    (length >= kind.min_length).then(|| position..position + kind.mark.len() + length)
}

/// Matches the token of `Bearer TOKEN`; the word `Bearer` stays. Prose such as "bearer bonds" does
/// not match.
fn bearer(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    const WORD: &[u8] = b"bearer ";
    let word = bytes.get(position..position + WORD.len())?;
    if !word.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let start = position + WORD.len();
    let token = &bytes[start..start + run_length(&bytes[start..], is_bearer)];
    let is_specific = token.len() >= 16 || token.len() >= 8 && token.iter().any(u8::is_ascii_digit);
    is_specific.then(|| start..start + token.len())
}

/// Matches a JSON web token: three parts of base64url, the first starting with an encoded `{"`.
fn web_token(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    if !bytes[position..].starts_with(b"eyJ") {
        return None;
    }
    let mut end = position;
    for part in 0..3 {
        let length = run_length(&bytes[end..], is_word_or_hyphen);
        if length < 4 {
            return None;
        }
        end += length;
        if part < 2 {
            if bytes.get(end) != Some(&b'.') {
                return None;
            }
            end += 1;
        }
    }
    Some(position..end)
}

/// Matches the PEM block of a private key; an unterminated block extends to the end of the text.
fn private_key(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const LABEL: &[u8] = b"PRIVATE KEY";
    const END: &[u8] = b"PRIVATE KEY-----";
    let rest = &bytes[position..];
    if !rest.starts_with(BEGIN) {
        return None;
    }
    let head = &rest[BEGIN.len()..rest.len().min(BEGIN.len() + PEM_LABEL_MAXIMUM)];
    let line = &head[..run_length(head, |byte| byte != b'\n')];
    let label = line.windows(LABEL.len()).position(|part| part == LABEL)?;
    let body = BEGIN.len() + label + LABEL.len();
    let end_line = rest[body..]
        .windows(b"-----END ".len())
        .position(|part| part == b"-----END ")
        .map(|offset| body + offset);
    let end = end_line.and_then(|start| {
        rest[start..]
            .windows(END.len())
            .position(|part| part == END)
            .map(|offset| start + offset + END.len())
    });
    Some(position..position + end.unwrap_or(rest.len()))
}

/// Matches the password of `scheme://user:password@host`.
fn password_in_url(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    let start = position + 3;
    if !bytes[position..].starts_with(b"://") {
        return None;
    }
    let authority = &bytes[start..start + run_length(&bytes[start..], is_authority)];
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..at].iter().position(|byte| *byte == b':')?;
    unless_masked(bytes, start + colon + 1..start + at)
}

/// Matches the value of `?password=VALUE` and similar parameters.
fn secret_setting(bytes: &[u8], position: usize) -> Option<Range<usize>> {
    let start = position + 1;
    let name = &bytes[start..bytes.len().min(start + SETTING_MAXIMUM)];
    let name = &name[..run_length(name, is_word_or_hyphen)];
    let equals = start + name.len();
    if bytes.get(equals) != Some(&b'=') || !is_secret_setting(name) {
        return None;
    }
    let start = equals + 1;
    unless_masked(
        bytes,
        start..start + run_length(&bytes[start..], is_setting),
    )
}

/// Returns `None` for an empty range and for one that is already masked: masking it again would
/// lose the secret's name.
fn unless_masked(bytes: &[u8], range: Range<usize>) -> Option<Range<usize>> {
    let found = &bytes[range.clone()];
    let is_mask = found.starts_with("«secret".as_bytes()) && found.ends_with("»".as_bytes());
    (!found.is_empty() && !is_mask).then_some(range)
}

/// Returns the number of leading bytes of a kind.
fn run_length(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    bytes
        .iter()
        .position(|byte| !kind(*byte))
        .unwrap_or(bytes.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word_or_hyphen(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_bearer(byte: u8) -> bool {
    is_word_or_hyphen(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

/// Returns whether a byte may occur between `://` and the path. Bytes of multi-byte characters may.
fn is_authority(byte: u8) -> bool {
    !matches!(
        byte,
        b'/' | b'?' | b'#' | b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'<' | b'>' | b'`'
    )
}

/// Returns whether a byte may occur in the value of a query parameter. A URL must percent-encode
/// all others.
fn is_setting(byte: u8) -> bool {
    byte != b'&' && (is_authority(byte) || matches!(byte, b'/' | b'?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let mut clean = String::new();
        let mut end = 0;
        for range in find(text) {
            clean.push_str(&text[end..range.start]);
            clean.push('#');
            end = range.end;
        }
        clean + &text[end..]
    }

    #[test]
    fn credentials_are_found_and_their_neighbours_kept() {
        let digits = "0123456789abcdefABCDEF";
        for (text, clean) in [
            (format!("key=sk-{digits}, next"), "key=#, next".to_owned()),
            (format!("sk-proj-{digits}-x"), "#".to_owned()),
            (format!("ghp_{digits}"), "#".to_owned()),
            (format!("(gho_{digits})"), "(#)".to_owned()),
            (format!("github_pat_{digits}_{digits}."), "#.".to_owned()),
            ("AKIAABCDEFGHIJKLMNOP!".to_owned(), "#!".to_owned()),
            (format!("xoxb-{digits}"), "#".to_owned()),
            (
                format!("Authorization: Bearer {digits}==\n"),
                "Authorization: Bearer #\n".to_owned(),
            ),
            (
                "t=eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl;".to_owned(),
                "t=#;".to_owned(),
            ),
            (
                "postgres://me:p%40ss@w@db:5432/x é".to_owned(),
                "postgres://me:#@db:5432/x é".to_owned(),
            ),
            ("日本://ü:ö@host".to_owned(), "日本://ü:#@host".to_owned()),
            (
                "postgresql://h/d?password=a/b?c&sslmode=require <x>".to_owned(),
                "postgresql://h/d?password=#&sslmode=require <x>".to_owned(),
            ),
            (
                "https://h/?passwd=1&pwd=2&access-token=3&API_KEY=4#part".to_owned(),
                "https://h/?passwd=#&pwd=#&access-token=#&API_KEY=##part".to_owned(),
            ),
        ] {
            assert_eq!(masked(&text), clean, "{text}");
        }
    }

    #[test]
    fn private_keys_are_found_whole_and_cut_short() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nx==\n-----END RSA PRIVATE KEY-----";
        assert_eq!(masked(&format!("a\n{key}\nb")), "a\n#\nb");
        assert_eq!(masked(&format!("{key}{key}")), "##");
        assert_eq!(masked("-----BEGIN PRIVATE KEY-----\nMIIB"), "#");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----";
        assert_eq!(masked(public), public);
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "task-management-is-a-long-word",
            "sk-learn is a library",
            "the bearer bonds are here",
            "see https://example.org/a:b@c and http://host:8080/x",
            "ssh://git@example.org:22/x",
            "AKIA is short",
            "https://h/?page=2&passwords=no&password=&tokens=1",
            "what is the password=? and &token",
            "postgres://me:«secret»@h?token=«secret:K»",
            "eyJ.not.jwt",
            "",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
