//! Tools: atomic operations with JSON schemas and flags that say what they may do.

pub mod talk;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::NamespacedName;
use crate::words::words;

/// What a tool is called, takes, gives and may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: NamespacedName,
    pub description: String,
    /// JSON Schemas; what does not match is refused before and reported after the call.
    pub input_schema: Value,
    pub output_schema: Value,
    pub capability: Capability,
    /// How long a call may take, in seconds.
    pub timeout_seconds: u64,
}

impl ToolDefinition {
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

words! {
    /// Whether a tool changes its sandbox. Tools that only read share it; one that writes has it
    /// alone.
    Access: "access" {
        ReadOnly = "read_only",
        Writes = "writes",
    }
}

words! {
    /// Whether doing it twice equals doing it once, outside the sandbox.
    Repeatable: "repeatability" {
        Idempotent = "idempotent",
        OnceOnly = "once_only",
    }
}

words! {
    /// Whether a profile must allow the tool expressly.
    Safety: "safety" {
        Safe = "safe",
        Unsafe = "unsafe",
    }
}

/// What a tool may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub access: Access,
    pub repeatable: Repeatable,
    pub safety: Safety,
    /// What it does outside the sandbox, in words; empty if nothing.
    #[serde(default)]
    pub side_effects: Vec<String>,
}

impl Capability {
    /// Only looks at the sandbox.
    pub fn reads() -> Self {
        Self {
            access: Access::ReadOnly,
            repeatable: Repeatable::Idempotent,
            safety: Safety::Safe,
            side_effects: Vec::new(),
        }
    }

    /// Changes the sandbox and nothing else.
    pub fn writes() -> Self {
        Self {
            access: Access::Writes,
            ..Self::reads()
        }
    }
}
