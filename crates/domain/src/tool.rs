//! Tools: atomic operations with JSON schemas and flags that say what they may do.

pub mod control;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::NamespacedName;
use crate::text_enum::text_enum;

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

text_enum! {
    /// Whether a tool changes its sandbox. Tools that only read share it; one that writes has it
    /// alone.
    ToolAccess: "access" {
        ReadOnly = "read_only",
        Writes = "writes",
    }
}

text_enum! {
    /// Whether doing it twice equals doing it once, outside the sandbox.
    Repeatability: "repeatability" {
        Idempotent = "idempotent",
        OnceOnly = "once_only",
    }
}

text_enum! {
    /// Whether a profile must allow the tool expressly.
    Safety: "safety" {
        Safe = "safe",
        Unsafe = "unsafe",
    }
}

/// What a tool may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub access: ToolAccess,
    pub repeatable: Repeatability,
    pub safety: Safety,
    /// What it does outside the sandbox, in words; empty if nothing.
    #[serde(default)]
    pub side_effects: Vec<String>,
}

impl Capability {
    /// Only looks at the sandbox.
    pub fn read_only() -> Self {
        Self {
            access: ToolAccess::ReadOnly,
            repeatable: Repeatability::Idempotent,
            safety: Safety::Safe,
            side_effects: Vec::new(),
        }
    }

    /// Changes the sandbox and nothing else.
    pub fn read_write() -> Self {
        Self {
            access: ToolAccess::Writes,
            ..Self::read_only()
        }
    }
}
