//! API keys that cannot be printed by accident.

use std::fmt;

/// A text that neither `Debug` nor `Display` prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Printed in place of a secret.
const MASK: &str = "«secret»";

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for the one header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Removes this secret from `text`. Needed because servers repeat what they were sent.
    pub(crate) fn redact(&self, text: &str) -> String {
        // Replacing an empty text would insert a mask between all characters.
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.0, MASK)
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
