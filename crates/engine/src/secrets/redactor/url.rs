//! Finds the passwords in a URL: between user and host, and in query parameters.
//!
//! Unlike `patterns`, which guesses, this parses a text known to be a URL, so it also finds the
//! whole of a password that contains `/`, `#` or `@`.

use std::ops::Range;

/// A query parameter is secret if its name ends with one of these.
const SECRET_SETTINGS: [&[u8]; 7] = [
    b"password",
    b"passwd",
    b"pwd",
    b"token",
    b"api_key",
    b"apikey",
    b"secret",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlPassword {
    /// The password with the context that marks it: `://user:password@` or `?password=…`.
    pub(super) context: Range<usize>,
    pub(super) password: Range<usize>,
}

/// Returns all passwords of a URL, in order.
pub(super) fn find_passwords(url: &str) -> Vec<UrlPassword> {
    let mut spots: Vec<UrlPassword> = find_in_authority(url).into_iter().collect();
    let mut end = url.find('?').unwrap_or(url.len());
    while end < url.len() {
        // `end` is at the `?` or `&` before a parameter.
        let start = end + 1;
        end = url[start..].find('&').map_or(url.len(), |at| start + at);
        let Some(equals) = url[start..end].find('=').map(|at| start + at) else {
            continue;
        };
        if is_secret_setting(&url.as_bytes()[start..equals]) && equals + 1 < end {
            spots.push(UrlPassword {
                context: start - 1..end,
                password: equals + 1..end,
            });
        }
    }
    spots
}

/// The last `@` before the query ends the password. An `@` only after a `?` ends it too, because
/// clients read user and password up to an `@` before they parse anything else.
fn find_in_authority(url: &str) -> Option<UrlPassword> {
    let context = url.find("://")?;
    let start = context + "://".len();
    let rest = &url[start..];
    let query = rest.find('?').unwrap_or(rest.len());
    let at = rest[..query].rfind('@').or_else(|| rest.find('@'))?;
    let colon = rest[..at].find(':')?;
    (colon + 1 < at).then(|| UrlPassword {
        context: context..start + at + 1,
        password: start + colon + 1..start + at,
    })
}

pub(super) fn is_secret_setting(name: &[u8]) -> bool {
    let is_same =
        |one: u8, other: u8| one.eq_ignore_ascii_case(&other) || one == b'-' && other == b'_';
    SECRET_SETTINGS.iter().any(|secret| {
        name.len() >= secret.len()
            && name[name.len() - secret.len()..]
                .iter()
                .zip(*secret)
                .all(|(one, other)| is_same(*one, *other))
    })
}

/// Decodes percent-encoding; malformed escapes are kept as they are.
pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = match (first, behind) {
            (b'%', [high, low, ..]) => hexadecimal(*high).zip(hexadecimal(*low)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_whatever_they_hold() {
        for (url, expected) in [
            ("postgresql://u:p@h/d", &["p"][..]),
            ("postgresql://u:pa/ss@h/d", &["pa/ss"]),
            ("postgresql://u:a#b@h/d", &["a#b"]),
            ("postgresql://u:a@b:c@h:5432/d?x=y@z", &["a@b:c"]),
            ("postgresql://u:a?b@h/d", &["a?b"]),
            ("postgresql://:p@h", &["p"]),
            ("postgresql://h/d?password=x'y#z&a=b", &["x'y#z"]),
            ("postgresql://h/d?a=b&PassWord=x", &["x"]),
            (
                "postgresql://u:p@h/d?sslpassword=q&token=r",
                &["p", "q", "r"],
            ),
            ("https://h/d?api-key=x&api_key=y&apikey=z", &["x", "y", "z"]),
            ("postgresql://ü:ö%20ß@h", &["ö%20ß"]),
            ("postgresql://u@h/d?password=", &[]),
            ("postgresql://u:@h/d?password", &[]),
            ("postgresql://h:5432/d?passwords=1&sslmode=require", &[]),
            ("sqlite:/data/a:b@c.db", &[]),
            ("https://h/v1", &[]),
            ("://", &[]),
            ("?&&=", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = find_passwords(url)
                .into_iter()
                .map(|spot| &url[spot.password])
                .collect();
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_malformed_ones_kept() {
        for (text, expected) in [
            ("p%40ss%2Fw%c3%b6rd", "p@ss/wörd"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%", "%zz%"),
            ("%+1", "%+1"),
            ("ü%41", "üA"),
        ] {
            assert_eq!(percent_decode(text), expected);
        }
    }
}
