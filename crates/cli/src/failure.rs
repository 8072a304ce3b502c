//! The error type of commands: message, causes, hints and exit code.
//!
//! Every other error is converted to a [`CommandFailure`] by the command that meets it. The crates
//! below know nothing of exit codes.

use std::error::Error;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Exit codes. Scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Conflict = 4,
    /// The user must decide before the plan can continue.
    Decision = 5,
    Limit = 6,
    /// The definition of done is not met.
    NotDone = 7,
    /// A retry may succeed.
    Temporary = 75,
    Interrupted = 130,
}

impl ExitCode {
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the name of the code in machine-readable output (`data.error.kind`).
    pub fn kind(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Decision => "decision",
            Self::Limit => "limit",
            Self::NotDone => "not_done",
            Self::Temporary => "temporary",
            Self::Interrupted => "interrupted",
        }
    }
}

#[derive(Debug, Clone)]
pub struct CommandFailure {
    /// A stable, machine-readable name. Defaults to [`ExitCode::kind`].
    pub kind: &'static str,
    /// One sentence that says what failed.
    pub message: String,
    /// The reasons, the nearest cause first.
    pub causes: Vec<String>,
    /// Commands to run or things to do next.
    pub hints: Vec<String>,
    pub exit: ExitCode,
    /// Further keys of `data` besides `error`, for JSON output (`conflicts`, `candidates`).
    pub data: Map<String, Value>,
}

impl CommandFailure {
    pub fn new(exit: ExitCode, what: impl Into<String>) -> Self {
        Self {
            kind: exit.kind(),
            message: what.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            exit,
            data: Map::new(),
        }
    }

    /// Returns a failure for invalid arguments or definitions.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, what)
    }

    #[must_use]
    pub fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds an error and its chain of sources as causes.
    #[must_use]
    pub fn caused_by(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a key to `data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.data.insert(key.to_owned(), value);
        self
    }

    /// Returns the `data` of the envelope.
    pub fn to_data(&self) -> Value {
        let mut data = self.data.clone();
        data.insert(
            "error".to_owned(),
            json!({
                "kind": self.kind,
                "message": self.message,
                "causes": self.causes,
                "hints": self.hints,
            }),
        );
        Value::Object(data)
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

/// Formats a path for messages; a very long one is truncated.
pub fn display_path(path: &Path) -> String {
    const MAXIMUM: usize = 500;
    shorten(&path.display().to_string(), MAXIMUM)
}

/// Truncates user input so that a message stays readable.
pub fn excerpt(text: &str) -> String {
    const MAXIMUM: usize = 60;
    shorten(text, MAXIMUM)
}

fn shorten(text: &str, maximum: usize) -> String {
    match text.char_indices().nth(maximum) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_chain_is_kept_in_order() {
        let inner = std::io::Error::other("disk on fire");
        let failure = CommandFailure::new(ExitCode::Error, "cannot save").caused_by(&inner);
        assert_eq!(failure.to_string(), "cannot save: disk on fire");
        assert_eq!(failure.to_data()["error"]["kind"], "error");
    }

    #[test]
    fn excerpts_cut_between_characters() {
        let text = "ü".repeat(100);
        assert_eq!(excerpt(&text), format!("{}… (200 bytes)", "ü".repeat(60)));
        assert_eq!(excerpt("short"), "short");
    }
}
