//! Tools: what an actor can do in a sandbox.
//!
//! A call names everything it works on; there is no ambient working directory. Calls block, so they
//! run on threads that may. Schemas, guards, the sandbox lock, the journal and the capture of
//! changes belong to the runner: a tool only does its work.

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

/// All available tools.
pub trait Toolbox: Send + Sync + Debug {
    /// Ordered by name.
    fn definitions(&self) -> Vec<&ToolDefinition>;

    fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool>;
}

pub trait Tool: Send + Sync + Debug {
    fn definition(&self) -> &ToolDefinition;

    /// Checks the input against its schema. Fails with [`ToolFailure::Input`], which lists every
    /// mismatch.
    fn check_input(&self, input: &Value) -> Result<(), ToolFailure>;

    /// Checks the output against its schema. Fails with [`ToolFailure::Failed`], which lists every
    /// mismatch and the touched paths.
    fn check_output(&self, output: &ToolOutput) -> Result<(), ToolFailure>;

    /// Does the work. The input has passed [`Self::check_input`].
    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure>;
}

/// One call: its input, its sandbox and its stop signal.
pub struct ToolInvocation<'a> {
    pub input: &'a Value,
    pub sandbox: &'a dyn Sandbox,
    /// The sandbox's tree after the last confirmed call.
    pub tree: &'a TreeId,
    /// The files that this actor has seen in the sandbox.
    pub stamps: &'a FileStamps,
    pub stop: &'a StopSignal,
    /// Records a started process. Must be called before the process may do anything.
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

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Matches the tool's output schema.
    pub data: Value,
    /// Paths that may have changed; used only if the tool writes.
    pub touched: TouchedPaths,
}

/// Failure of a call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolFailure {
    /// The input matches its schema but still cannot be used.
    #[error("{reason}")]
    Input { reason: String },
    /// The file differs from what the caller has seen. Contains the current content.
    #[error("{path} {why}; look at its content again and repeat the call")]
    Stale {
        path: ResourcePath,
        why: StaleReason,
        /// The beginning of the current content.
        content: String,
        /// BLAKE3 hash of the whole current content.
        hash: String,
    },
    /// The tool tried and failed; the sandbox may have changed.
    #[error("{reason}")]
    Failed {
        reason: String,
        touched: TouchedPaths,
    },
    /// The call would change paths that no plan may change, or it did and those changes are undone.
    #[error("{reason}")]
    Refused {
        reason: String,
        paths: Vec<ResourcePath>,
        /// The tool's output.
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

/// The files that one actor has seen in one sandbox: paths and content hashes. Each method is
/// atomic (law 6).
#[derive(Debug, Default)]
pub struct FileStamps(Mutex<HashMap<ResourcePath, String>>);

impl FileStamps {
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that the actor has read or written this content.
    pub fn stamp(&self, path: &ResourcePath, hash: &str) {
        self.lock().insert(path.clone(), hash.to_owned());
    }

    /// Records that the actor removed this path.
    pub fn forget(&self, path: &ResourcePath) {
        self.lock().remove(path);
    }

    /// Whether the actor has seen any content of this path. If not, a caller can skip reading the
    /// file only to check for staleness.
    pub fn has_stamp(&self, path: &ResourcePath) -> bool {
        self.lock().contains_key(path)
    }

    /// Checks that a file with this content may be replaced as a whole: the actor must have seen
    /// exactly this content.
    pub fn check_replace(&self, path: &ResourcePath, hash: &str) -> Result<(), StaleReason> {
        match self.lock().get(path) {
            None => Err(StaleReason::NotRead),
            Some(known) if known != hash => Err(StaleReason::Changed),
            Some(_) => Ok(()),
        }
    }

    /// Checks that a file with this content may be edited or removed: the actor must have seen
    /// either nothing of it or exactly this content.
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
