//! Tools: atomic operations with JSON schemas and flags that state their effects.

pub mod control;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::NamespacedName;
use crate::text_enum::text_enum;

/// The name, schemas, timeout and effects of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: NamespacedName,
    pub description: String,
    /// JSON Schemas. Input that does not match is refused before the call; output that does not
    /// match is reported after it.
    pub input_schema: Value,
    pub output_schema: Value,
    pub capability: Capability,
    /// The timeout of a call, in seconds.
    pub timeout_seconds: u64,
}

impl ToolDefinition {
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

text_enum! {
    /// Whether a tool changes its sandbox. Read-only tools share the sandbox; a tool that writes
    /// has exclusive access.
    ToolAccess: "access" {
        ReadOnly = "read_only",
        Writes = "writes",
    }
}

text_enum! {
    /// Whether a repeated call has the same effect outside the sandbox as a single one.
    Repeatability: "repeatability" {
        Idempotent = "idempotent",
        OnceOnly = "once_only",
    }
}

text_enum! {
    /// Whether a profile must allow the tool explicitly.
    Safety: "safety" {
        Safe = "safe",
        Unsafe = "unsafe",
    }
}

text_enum! {
    /// The effect of a call on files that is hardest to undo. The risk of a plan is estimated from
    /// it.
    ToolEffect: "effect" {
        /// Changes no file. A new, empty folder counts as no change.
        NoChange = "no_change",
        ChangesFiles = "changes_files",
        DeletesFiles = "deletes_files",
        RunsCommand = "runs_command",
    }
}

/// The effects of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub access: ToolAccess,
    pub effect: ToolEffect,
    pub repeatable: Repeatability,
    pub safety: Safety,
    /// Descriptions of its effects outside the sandbox; empty if there are none.
    #[serde(default)]
    pub side_effects: Vec<String>,
}

impl Capability {
    /// Reads the sandbox and has no other effect.
    pub fn read_only() -> Self {
        Self {
            access: ToolAccess::ReadOnly,
            effect: ToolEffect::NoChange,
            repeatable: Repeatability::Idempotent,
            safety: Safety::Safe,
            side_effects: Vec::new(),
        }
    }

    /// Changes files of the sandbox and nothing else.
    pub fn read_write() -> Self {
        Self {
            access: ToolAccess::Writes,
            effect: ToolEffect::ChangesFiles,
            ..Self::read_only()
        }
    }

    pub fn with_effect(self, effect: ToolEffect) -> Self {
        Self { effect, ..self }
    }
}
