//! The failure of a request: message, causes, next steps and exit class.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure_facts::FailureFacts;
use crate::failure_kind::FailureKind;
use crate::next_step::NextStep;

/// Classes of outcomes. Scripts rely on the numbers, which are exit codes of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitClass {
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

impl ExitClass {
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind of a failure that has no more specific one.
    pub fn kind(self) -> FailureKind {
        match self {
            Self::Ok => FailureKind::Ok,
            Self::Error => FailureKind::Error,
            Self::Usage => FailureKind::Usage,
            Self::NotFound => FailureKind::NotFound,
            Self::Conflict => FailureKind::Conflict,
            Self::Decision => FailureKind::Decision,
            Self::Limit => FailureKind::Limit,
            Self::NotDone => FailureKind::NotDone,
            Self::Temporary => FailureKind::Temporary,
            Self::Interrupted => FailureKind::Interrupted,
        }
    }
}

/// Failure of a request. Built by `app`, displayed by a front end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// [`ExitClass::kind`] if there is no more specific one.
    pub kind: FailureKind,
    /// One sentence that says what failed.
    pub message: String,
    /// The reasons, the nearest cause first.
    pub causes: Vec<String>,
    /// Requests to send or things to do next.
    pub next_steps: Vec<NextStep>,
    pub exit: ExitClass,
    pub facts: Box<FailureFacts>,
}

impl Failure {
    /// Returns the message and the first cause, for a warning about a part that failed.
    pub fn summary(&self) -> String {
        match self.causes.first() {
            Some(cause) => format!("{}: {cause}", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}
