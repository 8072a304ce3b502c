//! A regular expression for names, used as a filter in lists.

use std::fmt::Display;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};

use crate::failure::{RequestError, excerpt};
use cleveragents_api::FailureKind;

/// The memory limit for a compiled pattern, in bytes.
const COMPILED_MAXIMUM: usize = 1 << 20;

/// Matches anywhere in a name, ignoring case.
#[derive(Debug, Clone)]
pub struct NamePattern(Regex);

impl NamePattern {
    /// Parses a pattern of a request.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        text.parse().map_err(|error: String| {
            RequestError::usage(format!("invalid pattern `{}`", excerpt(text)))
                .kind(FailureKind::Pattern)
                .because(error)
                .hint("escape literal characters: `\\.` for a dot")
        })
    }

    pub fn matches(&self, name: &impl Display) -> bool {
        self.0.is_match(&name.to_string())
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(text)
            .case_insensitive(true)
            .size_limit(COMPILED_MAXIMUM)
            .build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the regular expression is too large".to_owned(),
            // Only the last line has the reason; the lines before it draw the pattern.
            other => {
                let said = other.to_string();
                let last = said.lines().last().unwrap_or_default();
                let reason = last.trim_start_matches("error: ");
                format!("it is not a regular expression: {reason}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_anywhere_and_a_wrong_one_says_why() {
        let pattern: NamePattern = "^local/.*INT$".parse().unwrap();
        assert!(pattern.matches(&"local/lint"));
        assert!(!pattern.matches(&"team/lint"));
        let said = "(".parse::<NamePattern>().unwrap_err();
        assert_eq!(said, "it is not a regular expression: unclosed group");
        let large = "(a{1000}){1000}".parse::<NamePattern>().unwrap_err();
        assert_eq!(large, "the regular expression is too large");
    }
}
