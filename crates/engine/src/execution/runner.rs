//! One call of a tool: guards, then on record, then run until its process tree is dead, then
//! captured, then on record with what it changed.
//!
//! Nothing runs before it is on record, and nothing counts before it is: what was confirmed is
//! never run again, and what was only begun is undone by whoever goes on.

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
use crate::ports::sandbox::{Capture, TouchedPaths};
use crate::ports::tools::{FileStamps, ToolFailure, ToolInvocation, Toolbox};
use crate::ports::{Ids, StopReason, StopSignal, StoreError, StoreOperation};
use crate::runs::FencedWriter;
use crate::secrets::Secrets;

/// How long the changes of a call may still be recorded after its owner was told to stop. What is
/// not recorded by then is undone when the sandbox is opened next.
const CAPTURE_GRACE: Duration = Duration::from_millis(200);

/// Runs tools for the owner of a plan.
#[derive(Debug, Clone)]
pub struct ToolRunner {
    pub(super) owner: FencedWriter,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) toolbox: Arc<dyn Toolbox>,
    pub(super) policy: CheckpointPolicy,
    /// The decision that is being carried out.
    pub(super) decision: Option<DecisionId>,
    /// What is hidden of all that calls are given and give.
    pub(super) secrets: Secrets,
    /// Turns to a reason when the owner has to stop.
    pub(super) stop: watch::Receiver<Option<StopReason>>,
}

/// What an actor asks for.
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

/// Where a call works and what it is recorded in.
#[derive(Debug, Clone, Copy)]
pub struct ToolCallContext<'a> {
    pub plan: &'a Plan,
    pub sandbox: &'a SandboxHandle,
    pub changeset: &'a Changeset,
    pub stamps: &'a Arc<FileStamps>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    Completed(CompletedCall),
    /// It was tried and failed; the error is in the plan's history.
    Failed(ToolCallRecord),
    Refused(ToolRefusal),
    /// The owner has to stop; what the call had changed is recorded.
    Stopped(StopReason),
}

/// A call that went well.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedCall {
    /// As it is stored, with its secrets masked.
    pub record: ToolCallRecord,
    pub output: CallOutput,
}

/// What a call answered.
#[derive(Clone, PartialEq)]
pub enum CallOutput {
    /// As the tool gave it, for calls that depend on it. It must not be stored.
    Unmasked(Value),
    /// The call was made earlier: the record has all that is left of it.
    Recorded,
}

/// Shows no value, which may hold secrets.
impl fmt::Debug for CallOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmasked(_) => "Unmasked",
            Self::Recorded => "Recorded",
        })
    }
}

/// Why a call was not let through.
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
    /// The call does not say where it works, or the plan does not work there.
    Resource,
    /// A guard of the profile.
    Guard,
    /// A limit of the profile is reached.
    Limit,
    /// A guard that a human can open.
    NeedsApproval,
}

/// The right to be in a sandbox.
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

/// The stop signals of a call: of its tool, and of the capture of what the tool did.
#[derive(Debug, Clone, Default)]
struct CallStopSignals {
    tool: StopSignal,
    capture: StopSignal,
}

/// Waits until the owner has to stop.
async fn wait_for_stop(stop_receiver: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    let why = stop_receiver.wait_for(Option::is_some).await;
    why.ok()
        .and_then(|why| *why)
        .unwrap_or(StopReason::Cancelled)
}

/// What a tool did, and how the tree stands then.
struct ToolRunResult {
    result: std::result::Result<Value, ToolFailure>,
    capture: Option<Capture>,
    guard: SandboxGuard,
}

impl ToolRunner {
    /// A runner of these tools for the owner of a plan, who stops when `stop` says so.
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

    /// Makes the call, or says why not. An error means that it could not be recorded, and that
    /// nobody may go on as if it had been made.
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
            // The time of a tool is over, not that of recording what it did.
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

    /// The work itself, on a thread that may block.
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
        // What is on record has its secrets hidden; the tool is given what was asked.
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

/// What a failed call may have changed.
fn touched_by(failure: &ToolFailure) -> TouchedPaths {
    match failure {
        ToolFailure::Failed { touched, .. } | ToolFailure::Stopped { touched, .. } => {
            touched.clone()
        }
        // A tool refuses before it changes anything.
        ToolFailure::Input { .. } | ToolFailure::Stale { .. } | ToolFailure::Refused { .. } => {
            TouchedPaths::Paths(Vec::new())
        }
        ToolFailure::Sandbox(_) | ToolFailure::Process(_) | ToolFailure::Store(_) => {
            TouchedPaths::Unknown
        }
    }
}

/// Puts a started process on record, from the thread that started it.
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
