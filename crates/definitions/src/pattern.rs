//! Regular expressions of argument patterns.

use regex::{Regex, RegexBuilder};

/// Maximum memory of a compiled pattern, in bytes.
const COMPILED_MAXIMUM: usize = 4 << 20;
/// Maximum nesting depth of groups.
const NESTING_MAXIMUM: u32 = 50;

/// A pattern that must match the whole value.
#[derive(Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Compiles `text`. Fails with a one-line reason.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        // Compile it alone first: `a)(b` must not become valid through the anchors put around it.
        // The size limit of 0 makes the build fail after the syntax check, so nothing is compiled
        // twice.
        match build(text, 0) {
            Ok(_) | Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(reason(&error)),
        }
        build(&format!(r"\A(?:{text})\z"), COMPILED_MAXIMUM)
            .map(Self)
            .map_err(|error| reason(&error))
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        self.0.is_match(value)
    }
}

fn build(text: &str, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .size_limit(size)
        .nest_limit(NESTING_MAXIMUM)
        .build()
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            r"it is too large; `[A-Za-z0-9_]` is much smaller than `\w`".to_owned()
        }
        // The last line is the reason; the lines before it draw the pattern.
        other => {
            let said = other.to_string();
            let last = said.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::new(pattern).ok().unwrap().matches(value)
    }

    #[test]
    fn the_whole_value_must_match() {
        assert!(matches("[a-z]+", "abc"));
        assert!(!matches("[a-z]+", "abc1"));
        assert!(matches("a|ab", "ab"));
        assert!(!matches("(?m)^a$", "a\nb"));
        assert!(matches(r"(?i)\d+-É", "12-é"));
    }

    #[test]
    fn usual_patterns_are_not_too_large() {
        assert!(matches(r"[\w.-]{1,64}", "a_1.b"));
        assert!(matches(
            "[a-z0-9_.-]{1,200}(/[a-z0-9_.-]{1,200}){0,5}",
            "a/b"
        ));
    }

    #[test]
    fn an_invalid_pattern_is_refused_in_one_line() {
        for (text, said) in [
            ("(", "unclosed group"),
            ("a)(b", "unopened group"),
            ("[z-a]", "invalid character class range"),
            ("(?=a)", "look-around"),
            ("(a{1000}){1000}", "it is too large"),
        ] {
            let reason = Pattern::new(text).err().unwrap();
            assert!(reason.contains(said) && !reason.contains('\n'), "{reason}");
        }
        let deep = "(".repeat(1_000) + &")".repeat(1_000);
        assert!(Pattern::new(&deep).is_err());
    }
}
