//! Makes one tool call: check guards, record the start, run the tool until its process tree is
//! dead, capture the tree, record the outcome with the changes.
//!
//! Nothing runs before its start is recorded, and nothing counts before its outcome is. A confirmed
//! call is never run again; a call that only started is undone by the next owner.

mod begin;
mod capture;
mod end;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool::ToolAccess;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{EventKind, NamespacedName, Plan, StreamId, TreeId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, watch};
use tokio::task::{JoinHandle, spawn_blocking};

use super::checkpoints::CheckpointPolicy;
use super::context::Changeset;
use super::error::{ExecutionError, Result};
use super::workspace::{OpenSandbox, SandboxHandle};
use crate::journal::event;
use crate::runs::FencedWriter;
use crate::secrets::Secrets;
use cleveragents_ports::sandbox::{Capture, TouchedPaths};
use cleveragents_ports::tools::{FileStamps, ToolFailure, ToolInvocation, Toolbox};
use cleveragents_ports::{Ids, StopReason, StopSignal, StoreError, StoreOperation};

/// How long the changes of a call may still be captured after its owner received a stop signal.
/// Changes not captured by then are undone when the sandbox is opened next.
const CAPTURE_GRACE: Duration = Duration::from_millis(200);

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

/// The output of a call.
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

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefusal {
    pub kind: RefusalKind,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    UnknownTool,
    Input,
    ReadOnlyPlan,
    UnsafeTool,
    /// The call names no resource, or one that the plan does not use.
    Resource,
    /// A guard of the profile refused it.
    Guard,
    /// A limit of the profile was reached.
    Limit,
    /// A guard refused it that the user can override by approval.
    NeedsApproval,
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

/// The stop signals of one call: one for the tool, one for the capture of its changes.
#[derive(Debug, Clone, Default)]
struct CallStopSignals {
    tool: StopSignal,
    capture: StopSignal,
}

/// Waits until the owner must stop.
async fn wait_for_stop(stop_receiver: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    let why = stop_receiver.wait_for(Option::is_some).await;
    why.ok()
        .and_then(|why| *why)
        .unwrap_or(StopReason::Cancelled)
}

/// Result of running a tool, with the captured tree. Holds the sandbox lock until the call is
/// recorded.
struct ToolRunResult {
    result: std::result::Result<Value, ToolFailure>,
    capture: Option<Capture>,
    guard: SandboxGuard,
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
        let record = match self.begin(&context, &request, access, guard.tree()).await? {
            begin::ToolCallAdmission::Go(record) => *record,
            begin::ToolCallAdmission::Refused(refusal) => return Ok(CallOutcome::Refused(refusal)),
        };
        let run_result = self.run(&context, (&record, &request.input), guard).await?;
        self.end(&context, record, run_result).await
    }

    async fn run(
        &self,
        context: &ToolCallContext<'_>,
        (record, input): (&ToolCallRecord, &Value),
        guard: SandboxGuard,
    ) -> Result<ToolRunResult> {
        let stops = CallStopSignals::default();
        let mut work = self.spawn(context, (record, input), guard, stops.clone());
        let tool = self.toolbox.tool(&record.call.tool);
        let timeout = tool.map(|tool| tool.definition().timeout());
        let mut stop_receiver = self.stop.clone();
        let mut why = tokio::select! {
            ran = &mut work => return ran?,
            () = tokio::time::sleep(timeout.unwrap_or_default()) => StopReason::TimedOut,
            why = wait_for_stop(&mut stop_receiver) => why,
        };
        stops.tool.stop(why);
        if why == StopReason::TimedOut {
            // The timeout limits only the tool, not the recording of its changes.
            why = tokio::select! {
                ran = &mut work => return ran?,
                why = wait_for_stop(&mut stop_receiver) => why,
            };
            stops.tool.stop(why);
        }
        tokio::select! {
            ran = &mut work => return ran?,
            () = tokio::time::sleep(CAPTURE_GRACE) => {}
        }
        stops.capture.stop(why);
        work.await?
    }

    /// Runs the tool and captures its changes on a thread that may block.
    fn spawn(
        &self,
        context: &ToolCallContext<'_>,
        (record, input): (&ToolCallRecord, &Value),
        guard: SandboxGuard,
        stops: CallStopSignals,
    ) -> JoinHandle<Result<ToolRunResult>> {
        let toolbox = Arc::clone(&self.toolbox);
        let stamps = Arc::clone(context.stamps);
        let announcer = Announcer {
            owner: self.owner.clone(),
            ids: Arc::clone(&self.ids),
            call: record.clone(),
            runtime: Handle::current(),
        };
        // The record has masked secrets; the tool needs the original input.
        let (call, input) = (record.call.clone(), input.clone());
        spawn_blocking(move || {
            let mut guard = guard;
            let Some(tool) = toolbox.tool(&call.tool) else {
                let reason = format!("the tool {} is gone", call.tool);
                return Err(ExecutionError::Internal { reason });
            };
            let (sandbox, tree) = match &guard {
                SandboxGuard::Shared(open_sandbox) => (&*open_sandbox.sandbox, &open_sandbox.tree),
                SandboxGuard::Exclusive(open_sandbox) => {
                    (&*open_sandbox.sandbox, &open_sandbox.tree)
                }
            };
            let answer = tool.run(&ToolInvocation {
                input: &input,
                sandbox,
                tree,
                stamps: &stamps,
                stop: &stops.tool,
                on_process_start: &|mark| announcer.announce(mark),
            });
            let (mut result, touched) = match answer {
                Ok(output) => match tool.check_output(&output) {
                    Ok(()) => (Ok(output.data), output.touched),
                    Err(failure) => (Err(failure), output.touched),
                },
                Err(failure) => {
                    let touched = touched_by(&failure);
                    (Err(failure), touched)
                }
            };
            let capture = capture::capture(&mut guard, &mut result, &touched, &stops.capture)?;
            Ok(ToolRunResult {
                result,
                capture,
                guard,
            })
        })
    }

    pub(super) fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// Returns the paths a failed call may have changed.
fn touched_by(failure: &ToolFailure) -> TouchedPaths {
    match failure {
        ToolFailure::Failed { touched, .. } | ToolFailure::Stopped { touched, .. } => {
            touched.clone()
        }
        // These are refusals: a tool raises them before it changes anything.
        ToolFailure::Input { .. } | ToolFailure::Stale { .. } | ToolFailure::Refused { .. } => {
            TouchedPaths::Paths(Vec::new())
        }
        ToolFailure::Sandbox(_) | ToolFailure::Process(_) | ToolFailure::Store(_) => {
            TouchedPaths::Unknown
        }
    }
}

/// Records a started process, called from the thread that started it. The process waits until the
/// record is durable, so that the next owner can kill it after a crash.
struct Announcer {
    owner: FencedWriter,
    ids: Arc<dyn Ids>,
    call: ToolCallRecord,
    runtime: Handle,
}

impl Announcer {
    fn announce(&self, mark: &ProcessIdentity) -> std::result::Result<(), StoreError> {
        let (id, plan) = (self.call.call.id, self.call.call.plan_id);
        let (actor, mark) = (self.owner.actor(), mark.clone());
        let operation = StoreOperation::new(&*self.ids, "tool.process-started");
        self.runtime
            .block_on(self.owner.write(operation, move |tx| {
                tx.set_tool_call_process(id, &mark)?;
                let started = json!({ "tool_call_id": id, "process": mark });
                let started = event(EventKind::ProcessStarted, &actor, &started)?;
                tx.append(StreamId::Plan(plan), &[started])?;
                Ok(())
            }))
    }
}
