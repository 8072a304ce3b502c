//! Makes one tool call: admit it and record its start (`admit`), run the tool until its process tree
//! is dead and capture the tree (`run`), record the outcome with the changes (`record`).
//!
//! Nothing runs before its start is recorded, and nothing counts before its outcome is. A confirmed
//! call is never run again; a call that only started is undone by the next owner.

mod admit;
mod call_facts;
mod capture;
mod record;
mod run;

use std::fmt;
use std::sync::Arc;

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::tool::ToolAccess;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{NamespacedName, Plan, TreeId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, watch};

use super::call_index::CallIndex;
use super::changesets::Changeset;
use super::checkpoints::CheckpointPolicy;
use super::error::Result;
use super::workspace::{OpenSandbox, SandboxHandle};
use crate::runs::FencedWriter;
use crate::secrets::Secrets;
use cleveragents_ports::tools::{FileStamps, Toolbox};
use cleveragents_ports::{Ids, StopReason, StoreOperation};

pub(super) use call_facts::exit_code;
pub use cleveragents_domain::tool_call::RefusalKind;

/// Makes tool calls for the owner of a plan.
#[derive(Debug, Clone)]
pub struct ToolRunner {
    pub(super) owner: FencedWriter,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) toolbox: Arc<dyn Toolbox>,
    pub(super) policy: CheckpointPolicy,
    /// The decision that the calls belong to.
    pub(super) decision: Option<DecisionId>,
    /// Masked in all stored inputs and outputs of calls.
    pub(super) secrets: Secrets,
    /// The calls of the plan; a call is added when it has ended.
    pub(super) calls: Arc<CallIndex>,
    /// Set to a reason when the owner must stop.
    pub(super) stop: watch::Receiver<Option<StopReason>>,
}

/// A tool call requested by an actor.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    pub tool: NamespacedName,
    pub input: Value,
    pub actor: NamespacedName,
    pub step: Option<u32>,
    pub turn: u32,
    pub slot: u32,
    pub approval: Approval,
}

/// The sandbox a call works in and the changeset it is recorded in.
#[derive(Debug, Clone, Copy)]
pub struct ToolCallContext<'a> {
    pub plan: &'a Plan,
    pub sandbox: &'a SandboxHandle,
    pub changeset: &'a Changeset,
    pub stamps: &'a Arc<FileStamps>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    Completed(CompletedCall),
    /// The call ran and failed; the error is recorded with the plan.
    Failed(ToolCallRecord),
    Refused(ToolRefusal),
    /// The owner must stop; the call's changes are recorded.
    Stopped(StopReason),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompletedCall {
    /// The stored record, with secrets masked.
    pub record: ToolCallRecord,
    pub output: CallOutput,
}

#[derive(Clone, PartialEq)]
pub enum CallOutput {
    /// The tool's raw output, for calls that depend on it. It must not be stored: secrets are not
    /// masked.
    Unmasked(Value),
    /// The call was made earlier. Only its masked record is left.
    Recorded,
}

/// Prints no value, because an unmasked output may hold secrets.
impl fmt::Debug for CallOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmasked(_) => "Unmasked",
            Self::Recorded => "Recorded",
        })
    }
}

/// Refusal of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefusal {
    pub kind: RefusalKind,
    pub reason: String,
}

/// Lock on a sandbox: readers share it, a writer holds it exclusively.
enum SandboxGuard {
    Shared(OwnedRwLockReadGuard<OpenSandbox>),
    Exclusive(OwnedRwLockWriteGuard<OpenSandbox>),
}

impl SandboxGuard {
    fn tree(&self) -> &TreeId {
        match self {
            Self::Shared(open_sandbox) => &open_sandbox.tree,
            Self::Exclusive(open_sandbox) => &open_sandbox.tree,
        }
    }
}

impl ToolRunner {
    /// Creates a runner for the owner of a plan. It stops when `stop` is set.
    pub fn new(
        owner: FencedWriter,
        ids: Arc<dyn Ids>,
        toolbox: Arc<dyn Toolbox>,
        policy: CheckpointPolicy,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Self {
        Self {
            owner,
            ids,
            toolbox,
            policy,
            decision: None,
            secrets: Secrets::default(),
            calls: Arc::default(),
            stop,
        }
    }

    /// Makes the call, or returns why it was refused. An error means that the outcome was not
    /// recorded; the caller must not continue as if the call had been made.
    pub async fn call(
        &self,
        context: ToolCallContext<'_>,
        request: ToolRequest,
    ) -> Result<CallOutcome> {
        if let Some(why) = *self.stop.borrow() {
            return Ok(CallOutcome::Stopped(why));
        }
        let access = match self.admit(context.plan, &request) {
            Ok(access) => access,
            Err(refusal) => {
                let refusal = self.refuse(context.plan, &request, refusal).await?;
                return Ok(CallOutcome::Refused(refusal));
            }
        };
        // Lock the sandbox before the call is recorded, so that the recorded `tree_before` is the
        // tree that the tool sees.
        let guard = match access {
            ToolAccess::ReadOnly => {
                SandboxGuard::Shared(Arc::clone(&context.sandbox.lock).read_owned().await)
            }
            ToolAccess::Writes => {
                SandboxGuard::Exclusive(Arc::clone(&context.sandbox.lock).write_owned().await)
            }
        };
        let record = match self
            .record_start(&context, &request, access, guard.tree())
            .await?
        {
            admit::ToolCallAdmission::Go(record) => *record,
            admit::ToolCallAdmission::Refused(refusal) => return Ok(CallOutcome::Refused(refusal)),
        };
        let run_result = self.run(&context, &record, &request.input, guard).await?;
        self.record(&context, record, run_result).await
    }

    pub(super) fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}
