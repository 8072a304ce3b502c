//! One call of a tool: guards, then on record, then run until its process tree is dead, then
//! captured, then on record with what it changed.
//!
//! Nothing runs before it is on record, and nothing counts before it is: what was confirmed is
//! never run again, and what was only begun is undone by whoever goes on.

mod begin;
mod captured;
mod end;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::process::ProcessMark;
use cleveragents_domain::tool::Access;
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
use super::workspace::{Inside, Seat};
use crate::journal::event;
use crate::ports::sandbox::{Capture, Touched};
use crate::ports::tools::{Call, Stamps, ToolFailure, Toolbox};
use crate::ports::{Ids, Operation, Stop, Stopped, StoreError};
use crate::runs::Fenced;
use crate::secrets::Secrets;

/// How long the changes of a call may still be recorded after its owner was told to stop. What is
/// not recorded by then is undone when the sandbox is opened next.
const CAPTURE_GRACE: Duration = Duration::from_millis(200);

/// Runs tools for the owner of a plan.
#[derive(Debug, Clone)]
pub struct ToolRunner {
    pub(super) owner: Fenced,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) toolbox: Arc<dyn Toolbox>,
    pub(super) policy: CheckpointPolicy,
    /// The decision that is being carried out.
    pub(super) decision: Option<DecisionId>,
    /// What is hidden of all that calls are given and give.
    pub(super) secrets: Secrets,
    /// Turns to a reason when the owner has to stop.
    pub(super) stop: watch::Receiver<Option<Stopped>>,
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
pub struct Place<'a> {
    pub plan: &'a Plan,
    pub seat: &'a Seat,
    pub changeset: &'a Changeset,
    pub stamps: &'a Arc<Stamps>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    Completed(CompletedCall),
    /// It was tried and failed; the error is in the plan's history.
    Failed(ToolCallRecord),
    Refused(Refusal),
    /// The owner has to stop; what the call had changed is recorded.
    Stopped(Stopped),
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
pub struct Refusal {
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
enum Inn {
    Shared(OwnedRwLockReadGuard<Inside>),
    Alone(OwnedRwLockWriteGuard<Inside>),
}

impl Inn {
    fn tree(&self) -> &TreeId {
        match self {
            Self::Shared(inside) => &inside.tree,
            Self::Alone(inside) => &inside.tree,
        }
    }
}

/// The stop signals of a call: of its tool, and of the capture of what the tool did.
#[derive(Debug, Clone, Default)]
struct Stops {
    tool: Stop,
    capture: Stop,
}

/// Waits until the owner has to stop.
async fn owner_stop(asked: &mut watch::Receiver<Option<Stopped>>) -> Stopped {
    let why = asked.wait_for(Option::is_some).await;
    why.ok().and_then(|why| *why).unwrap_or(Stopped::Cancelled)
}

/// What a tool did, and how the tree stands then.
struct Ran {
    result: std::result::Result<Value, ToolFailure>,
    capture: Option<Capture>,
    inn: Inn,
}

impl ToolRunner {
    /// A runner of these tools for the owner of a plan, who stops when `stop` says so.
    pub fn new(
        owner: Fenced,
        ids: Arc<dyn Ids>,
        toolbox: Arc<dyn Toolbox>,
        policy: CheckpointPolicy,
        stop: watch::Receiver<Option<Stopped>>,
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
    pub async fn call(&self, place: Place<'_>, request: ToolRequest) -> Result<CallOutcome> {
        if let Some(why) = *self.stop.borrow() {
            return Ok(CallOutcome::Stopped(why));
        }
        let access = match self.admit(place.plan, &request) {
            Ok(access) => access,
            Err(refusal) => {
                let refusal = self.refuse(place.plan, &request, refusal).await?;
                return Ok(CallOutcome::Refused(refusal));
            }
        };
        let inn = match access {
            Access::ReadOnly => Inn::Shared(Arc::clone(&place.seat.gate).read_owned().await),
            Access::Writes => Inn::Alone(Arc::clone(&place.seat.gate).write_owned().await),
        };
        let record = match self.begin(&place, &request, access, inn.tree()).await? {
            begin::Begun::Go(record) => *record,
            begin::Begun::Refused(refusal) => return Ok(CallOutcome::Refused(refusal)),
        };
        let ran = self.run(&place, (&record, &request.input), inn).await?;
        self.end(&place, record, ran).await
    }

    async fn run(
        &self,
        place: &Place<'_>,
        (record, input): (&ToolCallRecord, &Value),
        inn: Inn,
    ) -> Result<Ran> {
        let stops = Stops::default();
        let mut work = self.spawn(place, (record, input), inn, stops.clone());
        let tool = self.toolbox.tool(&record.call.tool);
        let patience = tool.map(|tool| tool.definition().timeout());
        let mut asked = self.stop.clone();
        let mut why = tokio::select! {
            ran = &mut work => return ran?,
            () = tokio::time::sleep(patience.unwrap_or_default()) => Stopped::TimedOut,
            why = owner_stop(&mut asked) => why,
        };
        stops.tool.stop(why);
        if why == Stopped::TimedOut {
            // The time of a tool is over, not that of recording what it did.
            why = tokio::select! {
                ran = &mut work => return ran?,
                why = owner_stop(&mut asked) => why,
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
        place: &Place<'_>,
        (record, input): (&ToolCallRecord, &Value),
        inn: Inn,
        stops: Stops,
    ) -> JoinHandle<Result<Ran>> {
        let toolbox = Arc::clone(&self.toolbox);
        let stamps = Arc::clone(place.stamps);
        let announcer = Announcer {
            owner: self.owner.clone(),
            ids: Arc::clone(&self.ids),
            call: record.clone(),
            runtime: Handle::current(),
        };
        // What is on record has its secrets hidden; the tool is given what was asked.
        let (call, input) = (record.call.clone(), input.clone());
        spawn_blocking(move || {
            let mut inn = inn;
            let Some(tool) = toolbox.tool(&call.tool) else {
                let reason = format!("the tool {} is gone", call.tool);
                return Err(ExecutionError::Lost { reason });
            };
            let (sandbox, tree) = match &inn {
                Inn::Shared(inside) => (&*inside.sandbox, &inside.tree),
                Inn::Alone(inside) => (&*inside.sandbox, &inside.tree),
            };
            let answer = tool.run(&Call {
                input: &input,
                sandbox,
                tree,
                stamps: &stamps,
                stop: &stops.tool,
                announce: &|mark| announcer.announce(mark),
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
            let capture = captured::capture(&mut inn, &mut result, &touched, &stops.capture)?;
            Ok(Ran {
                result,
                capture,
                inn,
            })
        })
    }

    pub(super) fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// What a failed call may have changed.
fn touched_by(failure: &ToolFailure) -> Touched {
    match failure {
        ToolFailure::Failed { touched, .. } | ToolFailure::Stopped { touched, .. } => {
            touched.clone()
        }
        // A tool refuses before it changes anything.
        ToolFailure::Input { .. } | ToolFailure::Stale { .. } | ToolFailure::Refused { .. } => {
            Touched::Paths(Vec::new())
        }
        ToolFailure::Sandbox(_) | ToolFailure::Process(_) | ToolFailure::Store(_) => {
            Touched::Unknown
        }
    }
}

/// Puts a started process on record, from the thread that started it.
struct Announcer {
    owner: Fenced,
    ids: Arc<dyn Ids>,
    call: ToolCallRecord,
    runtime: Handle,
}

impl Announcer {
    fn announce(&self, mark: &ProcessMark) -> std::result::Result<(), StoreError> {
        let (id, plan) = (self.call.call.id, self.call.call.plan_id);
        let (actor, mark) = (self.owner.actor(), mark.clone());
        let operation = Operation::new(&*self.ids, "tool.process-started");
        self.runtime
            .block_on(self.owner.write(operation, move |unit| {
                unit.mark_tool_call(id, &mark)?;
                let started = json!({ "tool_call_id": id, "process": mark });
                let started = event(EventKind::ProcessStarted, &actor, &started)?;
                unit.append(StreamId::Plan(plan), &[started])?;
                Ok(())
            }))
    }
}
