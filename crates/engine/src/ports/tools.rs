//! Tools: what an actor can do in a sandbox.
//!
//! A call names everything it works on; there is no ambient working directory. Calls block, so
//! they are given threads that may. Schemas, guards, the readers/writer gate, the journal and the
//! capture of changes are the runner's: a tool only does its work.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool::ToolDefinition;
use cleveragents_domain::{NamespacedName, ResourcePath};
use serde_json::Value;

use super::StoreError;
use super::processes::ProcessError;
use super::sandbox::{Sandbox, SandboxError, TouchedPaths, TreeId};
use super::stop::{StopReason, StopSignal};

/// Every tool there is.
pub trait Toolbox: Send + Sync + Debug {
    /// In order of their names.
    fn definitions(&self) -> Vec<&ToolDefinition>;

    fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool>;
}

pub trait Tool: Send + Sync + Debug {
    fn definition(&self) -> &ToolDefinition;

    /// Whether the input matches its schema; if not, [`ToolFailure::Input`] names every mismatch.
    fn check_input(&self, input: &Value) -> Result<(), ToolFailure>;

    /// Whether the output matches its schema; if not, [`ToolFailure::Failed`] names every mismatch
    /// and what was touched.
    fn check_output(&self, output: &ToolOutput) -> Result<(), ToolFailure>;

    /// Does the work. The input has matched its schema.
    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure>;
}

/// One call: what is asked, where, and how to stop.
pub struct ToolInvocation<'a> {
    pub input: &'a Value,
    pub sandbox: &'a dyn Sandbox,
    /// How the sandbox's tree stood after the last confirmed call.
    pub tree: &'a TreeId,
    /// What this actor has seen of the sandbox.
    pub stamps: &'a FileStamps,
    pub stop: &'a StopSignal,
    /// Makes a started process known before it may do anything.
    pub on_process_start: &'a (dyn Fn(&ProcessIdentity) -> Result<(), StoreError> + Sync),
}

impl Debug for ToolInvocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("input", &self.input)
            .field("sandbox", &self.sandbox.id())
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Matches the tool's output schema.
    pub data: Value,
    /// What may have changed; looked at only if the tool writes.
    pub touched: TouchedPaths,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolFailure {
    /// The input matches its schema and still cannot be used.
    #[error("{reason}")]
    Input { reason: String },
    /// The file is not as the caller knows it. The caller is shown how it is now.
    #[error("{path} {why}; look at its content again and repeat the call")]
    Stale {
        path: ResourcePath,
        why: StaleReason,
        /// The beginning of the content as it is.
        content: String,
        /// BLAKE3 of the whole content as it is.
        hash: String,
    },
    /// It was tried and did not work; the sandbox may have changed all the same.
    #[error("{reason}")]
    Failed {
        reason: String,
        touched: TouchedPaths,
    },
    /// It would change what no plan may change, or it did so and those changes are undone.
    #[error("{reason}")]
    Refused {
        reason: String,
        paths: Vec<ResourcePath>,
        /// What the tool said.
        output: Option<Value>,
    },
    #[error("{why}")]
    Stopped {
        why: StopReason,
        touched: TouchedPaths,
    },
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StaleReason {
    #[error("exists and was not read before")]
    NotRead,
    #[error("has changed since it was read")]
    Changed,
}

/// What one actor has seen of one sandbox: paths and the hashes of their contents. Each verb is
/// whole (law 6).
#[derive(Debug, Default)]
pub struct FileStamps(Mutex<HashMap<ResourcePath, String>>);

impl FileStamps {
    pub fn new() -> Self {
        Self::default()
    }

    /// The actor has read or written this content.
    pub fn stamp(&self, path: &ResourcePath, hash: &str) {
        self.lock().insert(path.clone(), hash.to_owned());
    }

    /// The path is gone by the actor's own hand.
    pub fn forget(&self, path: &ResourcePath) {
        self.lock().remove(path);
    }

    /// Whether the actor knows any content of this path. Who would read a file only to ask whether
    /// it may be changed need not, if not.
    pub fn has_stamp(&self, path: &ResourcePath) -> bool {
        self.lock().contains_key(path)
    }

    /// Whether a file with this content may be replaced as a whole: only one the actor knows.
    pub fn check_replace(&self, path: &ResourcePath, hash: &str) -> Result<(), StaleReason> {
        match self.lock().get(path) {
            None => Err(StaleReason::NotRead),
            Some(known) if known != hash => Err(StaleReason::Changed),
            Some(_) => Ok(()),
        }
    }

    /// Whether a file with this content may be changed in part or removed: one the actor does not
    /// know, or knows as it is.
    pub fn check_change(&self, path: &ResourcePath, hash: &str) -> Result<(), StaleReason> {
        match self.check_replace(path, hash) {
            Err(StaleReason::Changed) => Err(StaleReason::Changed),
            Ok(()) | Err(StaleReason::NotRead) => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ResourcePath, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
