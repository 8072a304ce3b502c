//! The names of the files that an apply writes beside those of the user.
//!
//! Code that lists the user's files skips them.

use std::fmt::Display;

use cleveragents_domain::id::ApplyId;

const PREFIX: &str = ".agents-";

const ID_LENGTH: usize = 26;

/// Returns the name of a temporary file of this apply.
pub(crate) fn temporary_name(id: ApplyId, part: impl Display) -> String {
    format!("{PREFIX}{id}-{part}")
}

/// Returns whether any apply may have written a file of this name.
pub(crate) fn is_temporary_name(name: &[u8]) -> bool {
    let rest = name.strip_prefix(PREFIX.as_bytes());
    let Some((id, rest)) = rest.and_then(|rest| rest.split_at_checked(ID_LENGTH)) else {
        return false;
    };
    let id = std::str::from_utf8(id).ok();
    rest.starts_with(b"-") && id.is_some_and(|id| id.parse::<ApplyId>().is_ok())
}

/// Returns the line of an exclude file that matches exactly these names.
pub(crate) fn exclude_line() -> String {
    format!("{PREFIX}{}-*\n", "[0-9A-HJKMNP-TV-Z]".repeat(ID_LENGTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_applies_are_recognised() {
        let id: ApplyId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        let name = temporary_name(id, 7);
        assert_eq!(name, ".agents-01JZZZZZZZ0000000000ABCDEF-7");
        for name in [&name, &format!("{name}.part"), &temporary_name(id, "patch")] {
            assert!(is_temporary_name(name.as_bytes()), "{name}");
        }
        for name in [
            ".agents",
            ".agents-",
            ".agents-notes-7",
            ".agents-01JZZZZZZZ0000000000ABCDEF",
            ".agents-01JZZZZZZZ0000000000ABCDEFG-7",
            "agents-01JZZZZZZZ0000000000ABCDEF-7",
        ] {
            assert!(!is_temporary_name(name.as_bytes()), "{name}");
        }
    }
}
