//! An actor of the type `tool`: its calls, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cleveragents_domain::actor::ActorStep;
use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::SandboxId;
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, Plan, Waiting};
use serde_json::Value;

use super::context::{Changeset, ExecutionContext};
use super::error::{ExecutionError, Result};
use super::runner::{
    CallOutcome, CallOutput, CompletedCall, Place, Refusal, RefusalKind, ToolRequest, ToolRunner,
};
use super::workspace::{Seat, Workspace};
use crate::actors::{RunIt, render_step};
use crate::definitions::filling::StepOutputs;
use crate::ports::Stopped;
use crate::ports::tools::Stamps;
use crate::secrets::masks::find_mask_in;
use crate::secrets::references::UnknownSecret;
use crate::secrets::same_but_for_secrets;

/// How an actor's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActorEnd {
    Done,
    /// The error is in the plan's history.
    Failed(String),
    /// So is this one: the model gave no answer, however often it was asked.
    NoAnswer(String),
    /// The plan waits for something that is not its owner's to do.
    Waits {
        waiting: Waiting,
        reason: String,
    },
    /// A limit of the profile is reached.
    Limit(String),
    Stopped(Stopped),
}

/// Where a call stands: step, turn and slot.
type Spot = (u32, u32, u32);

/// What is known of the calls of a plan.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    /// Those that need not be made again.
    calls: HashMap<Spot, ToolCallRecord>,
    /// Those that were interrupted and may have had effects outside the sandbox, which nobody can
    /// take back and nobody may repeat without being asked to.
    doubtful: HashMap<Spot, ToolCallRecord>,
}

/// One step of a strategy being carried out.
pub(super) struct StepWork<'a> {
    pub(super) plan: &'a Plan,
    pub(super) workspace: &'a Workspace,
    pub(super) runner: &'a ToolRunner,
    pub(super) confirmed: &'a Confirmed,
    pub(super) step: u32,
    /// The turns of its actor are counted from here.
    pub(super) first_turn: u32,
    /// How many calls a human has let through in advance.
    pub(super) approvals: &'a AtomicU32,
    changesets: BTreeMap<SandboxId, Changeset>,
    stamps: BTreeMap<SandboxId, Arc<Stamps>>,
}

impl<'a> StepWork<'a> {
    /// Starts a changeset in every sandbox.
    pub(super) async fn begin(
        context: &ExecutionContext,
        (plan, workspace): (&'a Plan, &'a Workspace),
        (runner, confirmed): (&'a ToolRunner, &'a Confirmed),
        step: u32,
        approvals: &'a AtomicU32,
    ) -> Result<Self> {
        let mut changesets = BTreeMap::new();
        let mut stamps = BTreeMap::new();
        for seat in &workspace.seats {
            let changeset = context
                .start_changeset(seat.id, plan.attempt, Some(step))
                .await?;
            changesets.insert(seat.id, changeset);
            stamps.insert(seat.id, Arc::new(Stamps::new()));
        }
        Ok(Self {
            plan,
            workspace,
            runner,
            confirmed,
            step,
            first_turn: 0,
            approvals,
            changesets,
            stamps,
        })
    }

    /// What the actor's calls so far have seen and written, it knows.
    pub(super) fn know(&self, calls: &[ToolCallRecord]) {
        for call in calls.iter().filter(|it| it.undone_by.is_none()) {
            if let Some(stamps) = self.stamps.get(&call.call.sandbox_id) {
                restamp(stamps, call);
            }
        }
    }

    /// Takes no more changes for this step.
    pub(super) async fn close(&self) -> Result<()> {
        for changeset in self.changesets.values() {
            changeset.close().await?;
        }
        Ok(())
    }

    /// Makes the calls of a tool actor. Calls that are confirmed are not made again: their outputs
    /// stand.
    pub(super) async fn run_steps(
        &self,
        actor: &NamespacedName,
        steps: &[ActorStep],
        first_turn: u32,
    ) -> Result<ActorEnd> {
        let mut outputs = StepOutputs::default();
        // Stored as references; what is executed has the values themselves.
        let arguments = match self.resolved_arguments() {
            Ok(arguments) => arguments,
            Err(unknown) => return self.cannot_start(actor, steps, first_turn, &unknown).await,
        };
        for (step, turn) in steps.iter().zip(first_turn..) {
            let rendered = render_step(step, &arguments, &outputs)?;
            if let RunIt::No(_) = rendered.run {
                step.id.iter().for_each(|id| outputs.skip(id));
                continue;
            }
            let request = ToolRequest {
                tool: rendered.tool,
                input: rendered.input,
                actor: actor.clone(),
                step: Some(self.step),
                turn,
                slot: 1,
                approval: Approval::Missing,
            };
            let seat = match self.workspace.seat(rendered.resource.as_ref()) {
                Ok(seat) => seat,
                Err(refusal) => {
                    let refused = self.runner.refuse(self.plan, &request, refusal).await?;
                    return Ok(ActorEnd::Failed(refused.reason));
                }
            };
            let made = match self.call(seat, request.clone()).await? {
                Ok(made) => made,
                Err(end) => return Ok(end),
            };
            let Some(id) = &step.id else { continue };
            match made.output_for_steps() {
                Ok(output) => outputs.record(id, &output),
                Err(reason) => {
                    let kind = RefusalKind::Input;
                    let refusal = Refusal { kind, reason };
                    let refused = self.runner.refuse(self.plan, &request, refusal).await?;
                    return Ok(ActorEnd::Failed(refused.reason));
                }
            }
        }
        Ok(ActorEnd::Done)
    }

    /// The plan's arguments with their secrets, as this process knows them.
    fn resolved_arguments(&self) -> std::result::Result<BTreeMap<String, Value>, UnknownSecret> {
        let arguments = self.plan.brief.arguments.iter();
        let secrets = &self.runner.secrets;
        let resolve = |(name, value): (&String, &Value)| {
            secrets.resolve(value).map(|value| (name.clone(), value))
        };
        arguments.map(resolve).collect()
    }

    /// Records that an argument of the plan refers to a secret that is not known here.
    async fn cannot_start(
        &self,
        actor: &NamespacedName,
        steps: &[ActorStep],
        turn: u32,
        unknown: &UnknownSecret,
    ) -> Result<ActorEnd> {
        let reason = format!("an argument of the plan cannot be filled in: {unknown}");
        let Some(step) = steps.first() else {
            return Ok(ActorEnd::Done);
        };
        let request = ToolRequest {
            tool: step.tool.clone(),
            input: Value::Null,
            actor: actor.clone(),
            step: Some(self.step),
            turn,
            slot: 1,
            approval: Approval::Missing,
        };
        let kind = RefusalKind::Input;
        let refusal = Refusal { kind, reason };
        let refused = self.runner.refuse(self.plan, &request, refusal).await?;
        Ok(ActorEnd::Failed(refused.reason))
    }

    /// A call that was made, now or before.
    async fn call(
        &self,
        seat: &Seat,
        request: ToolRequest,
    ) -> Result<std::result::Result<CompletedCall, ActorEnd>> {
        if let Some(known) = self.known(&request) {
            let stamps = self.stamps.get(&seat.id);
            stamps.iter().for_each(|stamps| restamp(stamps, known));
            return Ok(Ok(made_before(known)));
        }
        Ok(match self.make(seat, request).await? {
            CallOutcome::Completed(made) => match failing_exit(&made.record) {
                None => Ok(made),
                Some(reason) => {
                    self.runner
                        .tell_failure(self.plan, &made.record, &reason)
                        .await?;
                    Err(ActorEnd::Failed(reason))
                }
            },
            CallOutcome::Failed(record) => Err(ActorEnd::Failed(record.error.unwrap_or_default())),
            CallOutcome::Stopped(why) => Err(ActorEnd::Stopped(why)),
            CallOutcome::Refused(refusal) => Err(match refusal.kind {
                RefusalKind::NeedsApproval => ActorEnd::Waits {
                    waiting: Waiting::Approval { decision: None },
                    reason: refusal.reason,
                },
                RefusalKind::Limit => ActorEnd::Limit(refusal.reason),
                _ => ActorEnd::Failed(refusal.reason),
            }),
        })
    }

    /// Makes a call, unless it was made before: then what came of it stands.
    pub(super) async fn make(&self, seat: &Seat, request: ToolRequest) -> Result<CallOutcome> {
        let missing = || ExecutionError::Lost {
            reason: format!("sandbox {} is not part of this step", seat.id),
        };
        let stamps = self.stamps.get(&seat.id).ok_or_else(missing)?;
        let changeset = self.changesets.get(&seat.id).ok_or_else(missing)?;
        if let Some(known) = self.known(&request) {
            restamp(stamps, known);
            return Ok(match known.state {
                ToolCallState::Completed => CallOutcome::Completed(made_before(known)),
                _ => CallOutcome::Failed(known.clone()),
            });
        }
        let place = Place {
            plan: self.plan,
            seat,
            changeset,
            stamps,
        };
        let request = match self.repeated(request).await? {
            Ok(request) => request,
            Err(refusal) => return Ok(CallOutcome::Refused(refusal)),
        };
        let outcome = self.runner.call(place, request.clone()).await?;
        if let CallOutcome::Refused(refusal) = &outcome
            && refusal.kind == RefusalKind::NeedsApproval
            && self.take_approval()
        {
            let approved = ToolRequest {
                approval: Approval::Given,
                ..request
            };
            return self.runner.call(place, approved).await;
        }
        Ok(outcome)
    }

    /// The confirmed call that this request is about. An actor that was changed meanwhile asks for
    /// something else at the same place, which was never done.
    fn known(&self, request: &ToolRequest) -> Option<&'a ToolCallRecord> {
        let place = (self.step, request.turn, request.slot);
        let known = self.confirmed.calls.get(&place)?;
        let same = known.call.tool == request.tool
            && same_but_for_secrets(&known.call.input, &request.input);
        same.then_some(known)
    }

    /// A call that was interrupted and may have had effects outside the sandbox is repeated at a
    /// human's word only.
    async fn repeated(
        &self,
        request: ToolRequest,
    ) -> Result<std::result::Result<ToolRequest, Refusal>> {
        let place = (self.step, request.turn, request.slot);
        let doubtful = self.confirmed.doubtful.get(&place);
        let same = |it: &&ToolCallRecord| {
            it.call.tool == request.tool
                && same_but_for_secrets(&it.call.input, &request.input)
                && it.call.attempt == self.plan.attempt
        };
        let Some(doubtful) = doubtful.filter(same) else {
            return Ok(Ok(request));
        };
        if self.take_approval() {
            // Whoever lets it be done again lets it be done.
            return Ok(Ok(ToolRequest {
                approval: Approval::Given,
                ..request
            }));
        }
        let refusal = Refusal {
            kind: RefusalKind::NeedsApproval,
            reason: format!(
                "call {} of {} was interrupted, and what it may have done outside the sandbox is \
                 not undone ({}): `agents plan execute` makes it again, `agents plan rollback` \
                 goes back to before it",
                doubtful.number,
                request.tool,
                doubtful.call.side_effects.join(", ")
            ),
        };
        Ok(Err(self
            .runner
            .refuse(self.plan, &request, refusal)
            .await?))
    }

    /// Uses up one call that a human has let through.
    fn take_approval(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.approvals
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }
}

/// A call that an earlier owner of the plan made.
fn made_before(record: &ToolCallRecord) -> CompletedCall {
    CompletedCall {
        record: record.clone(),
        output: CallOutput::Recorded,
    }
}

impl CompletedCall {
    /// Returns what later steps may use. Fails if only a record is left and secrets are masked in
    /// it: a mask must take the place of nothing, and which of its forms a secret had is not known.
    fn output_for_steps(&self) -> std::result::Result<Value, String> {
        match &self.output {
            CallOutput::Unmasked(output) => Ok(output.clone()),
            CallOutput::Recorded => {
                let output = self.record.output.clone().unwrap_or(Value::Null);
                match find_mask_in(&output) {
                    None => Ok(output),
                    Some(mask) => Err(format!(
                        "the output of call {} had a secret ({mask}), which is not stored, so the \
                         steps that need it cannot go on: `agents plan rollback` to before that \
                         call makes it again",
                        self.record.number
                    )),
                }
            }
        }
    }
}

/// Why a command that ran did not do its step. Whoever wants to look at the exit code lets the
/// command say it.
fn failing_exit(record: &ToolCallRecord) -> Option<String> {
    let code = record.output.as_ref()?.get("exit_code")?.as_i64()?;
    (code != 0).then(|| format!("{} ended with exit code {code}", record.call.tool))
}

/// What an earlier call of this step has seen or written is known to the actor.
fn restamp(stamps: &Stamps, record: &ToolCallRecord) {
    let Some(output) = &record.output else {
        return;
    };
    let text = |key| output.get(key).and_then(Value::as_str);
    // What was copied or moved is known where it went to.
    let path = text("path").or_else(|| text("to"));
    if let (Some(path), Some(hash)) = (path, text("hash"))
        && let Ok(path) = path.parse()
    {
        stamps.stamp(&path, hash);
    }
}

/// Whether a call went well: a command that did not exit with 0 did not.
pub(super) fn is_confirmed(call: &ToolCallRecord) -> bool {
    call.state == ToolCallState::Completed && failing_exit(call).is_none()
}

/// The calls that a model was told the outcome of, however they ended.
pub(super) fn ended(calls: Vec<ToolCallRecord>) -> Confirmed {
    known(calls, |call| {
        matches!(
            call.state,
            ToolCallState::Completed | ToolCallState::Errored
        )
    })
}

/// The calls that need not be made again: a command that failed is one that is tried again.
pub(super) fn confirmed(calls: Vec<ToolCallRecord>) -> Confirmed {
    known(calls, is_confirmed)
}

/// Of the calls at each spot, the last that stands and ended as `stands` says.
fn known(calls: Vec<ToolCallRecord>, stands: fn(&ToolCallRecord) -> bool) -> Confirmed {
    let mut known = Confirmed::default();
    for call in calls {
        let Some(step) = call.call.step else { continue };
        let spot = (step, call.call.turn, call.call.slot);
        // The last call at a spot says how things stand there.
        known.doubtful.remove(&spot);
        if call.state == ToolCallState::Interrupted && !call.call.side_effects.is_empty() {
            known.doubtful.insert(spot, call);
        } else if stands(&call) && call.undone_by.is_none() {
            known.calls.insert(spot, call);
        }
    }
    known
}
