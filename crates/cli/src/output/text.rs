//! Escapes untrusted text so that it cannot control the terminal: control characters and direction
//! overrides are printed as escape sequences.

/// For cells and prose: keeps line breaks, turns tabs into spaces, escapes the rest as `\x1b`.
pub(super) fn escape_cell(text: &str) -> String {
    escape(&text.replace("\r\n", "\n"), |character| match character {
        '\n' => Some("\n"),
        '\t' => Some("    "),
        _ => None,
    })
}

/// For one line of `plain`: also escapes line breaks and tabs.
pub(super) fn escape_line(text: &str) -> String {
    escape(text, |character| match character {
        '\n' => Some("\\n"),
        '\t' => Some("\\t"),
        '\r' => Some("\\r"),
        _ => None,
    })
}

/// For verbatim text on a terminal: keeps line breaks and tabs.
pub(super) fn escape_verbatim(text: &str) -> String {
    escape(text, |character| match character {
        '\n' => Some("\n"),
        '\t' => Some("\t"),
        _ => None,
    })
}

fn escape(text: &str, known: impl Fn(char) -> Option<&'static str>) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match known(character) {
            Some(replacement) => clean.push_str(replacement),
            None if character.is_ascii_control() => {
                clean.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            None if is_unsafe(character) => {
                clean.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
            }
            None => clean.push(character),
        }
    }
    clean
}

/// Returns whether a character is a control character, or one that reorders the text around it and
/// so can disguise it.
pub(super) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\x1b[31mb\x07\u{9b}2J\u{202e}c\td\ne\x7f\r\n";
        assert_eq!(
            escape_cell(hostile),
            "a\\x1b[31mb\\x07\\u{9b}2J\\u{202e}c    d\ne\\x7f\n"
        );
        assert_eq!(
            escape_line(hostile),
            "a\\x1b[31mb\\x07\\u{9b}2J\\u{202e}c\\td\\ne\\x7f\\r\\n"
        );
        assert_eq!(escape_verbatim("a\tb\nü\r"), "a\tb\nü\\x0d");
    }
}
