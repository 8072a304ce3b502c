//! Keys, which nobody sees by accident.

use std::fmt;

/// A text that is shown to nobody: neither `Debug` nor `Display` tell it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What stands in the place of a secret.
const MASK: &str = "«secret»";

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one header it belongs in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without this secret: servers repeat what they were sent.
    pub(crate) fn redact(&self, text: &str) -> String {
        match self.0.is_empty() {
            true => text.to_owned(),
            false => text.replace(&self.0, MASK),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {secret:#?}"),
            [MASK; 3].join(" ")
        );
        assert_eq!(secret.redact("key sk-hunter2!"), "key «secret»!");
        assert_eq!(Secret::new("").redact("as it is"), "as it is");
    }
}
