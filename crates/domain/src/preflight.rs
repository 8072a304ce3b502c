//! Checks before a plan is worked on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text_enum::text_enum;

text_enum! {
    /// A check, in the order in which they run.
    PreflightCheck: "preflight check" {
        Schema = "schema",
        Actors = "actors",
        Models = "models",
        Tools = "tools",
        Profile = "profile",
        Budget = "budget",
        Projects = "projects",
        Resources = "resources",
        Sandbox = "sandbox",
        Rollback = "rollback",
    }
}

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightFailure {
    pub check: PreflightCheck,
    pub reason: String,
}

impl fmt::Display for PreflightFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.reason)
    }
}
