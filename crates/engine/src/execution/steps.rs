//! An actor of the type `tool`: its calls, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cleveragents_domain::actor::ActorStep;
use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::SandboxId;
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, Plan, WaitReason};
use serde_json::Value;

use super::context::{Changeset, ExecutionContext};
use super::error::{ExecutionError, Result};
use super::runner::{
    CallOutcome, CallOutput, CompletedCall, RefusalKind, ToolCallContext, ToolRefusal, ToolRequest,
    ToolRunner,
};
use super::workspace::{SandboxHandle, Workspace};
use crate::actors::{StepAction, render_step};
use crate::definitions::interpolation::StepOutputs;
use crate::ports::StopReason;
use crate::ports::tools::FileStamps;
use crate::secrets::equal_ignoring_secrets;
use crate::secrets::masks::find_mask_in;
use crate::secrets::references::UnknownSecret;

/// How an actor's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActorEnd {
    Done,
    /// The error is in the plan's history.
    Failed(String),
    /// So is this one: the model gave no answer, however often it was asked.
    NoAnswer(String),
    /// The plan waits for something that is not its owner's to do.
    Waiting {
        waiting: WaitReason,
        reason: String,
    },
    /// A limit of the profile is reached.
    LimitReached(String),
    Stopped(StopReason),
}

/// Where a call stands: step, turn and slot.
type CallPosition = (u32, u32, u32);

/// What is known of the calls of a plan.
#[derive(Debug, Default)]
pub(super) struct CallHistory {
    /// Those that need not be made again.
    calls: HashMap<CallPosition, ToolCallRecord>,
    /// Those that were interrupted and may have had effects outside the sandbox, which nobody can
    /// take back and nobody may repeat without being asked to.
    doubtful: HashMap<CallPosition, ToolCallRecord>,
}

/// One step of a strategy being carried out.
pub(super) struct StepWork<'a> {
    pub(super) plan: &'a Plan,
    pub(super) workspace: &'a Workspace,
    pub(super) runner: &'a ToolRunner,
    pub(super) call_history: &'a CallHistory,
    pub(super) step: u32,
    /// The turns of its actor are counted from here.
    pub(super) first_turn: u32,
    /// How many calls a human has let through in advance.
    pub(super) approvals: &'a AtomicU32,
    changesets: BTreeMap<SandboxId, Changeset>,
    stamps: BTreeMap<SandboxId, Arc<FileStamps>>,
}

impl<'a> StepWork<'a> {
    /// Starts a changeset in every sandbox.
    pub(super) async fn begin(
        context: &ExecutionContext,
        (plan, workspace): (&'a Plan, &'a Workspace),
        (runner, confirmed): (&'a ToolRunner, &'a CallHistory),
        step: u32,
        approvals: &'a AtomicU32,
    ) -> Result<Self> {
        let mut changesets = BTreeMap::new();
        let mut stamps = BTreeMap::new();
        for handle in &workspace.sandboxes {
            let changeset = context
                .start_changeset(handle.id, plan.attempt, Some(step))
                .await?;
            changesets.insert(handle.id, changeset);
            stamps.insert(handle.id, Arc::new(FileStamps::new()));
        }
        Ok(Self {
            plan,
            workspace,
            runner,
            call_history: confirmed,
            step,
            first_turn: 0,
            approvals,
            changesets,
            stamps,
        })
    }

    /// What the actor's calls so far have seen and written, it knows.
    pub(super) fn restore_stamps(&self, calls: &[ToolCallRecord]) {
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
            Err(unknown) => {
                return self
                    .refuse_unknown_secret(actor, steps, first_turn, &unknown)
                    .await;
            }
        };
        for (step, turn) in steps.iter().zip(first_turn..) {
            let rendered = render_step(step, &arguments, &outputs)?;
            if let StepAction::Skip(_) = rendered.action {
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
            let handle = match self.workspace.sandbox(rendered.resource.as_ref()) {
                Ok(handle) => handle,
                Err(refusal) => {
                    let refused = self.runner.refuse(self.plan, &request, refusal).await?;
                    return Ok(ActorEnd::Failed(refused.reason));
                }
            };
            let completed = match self.call(handle, request.clone()).await? {
                Ok(completed) => completed,
                Err(end) => return Ok(end),
            };
            let Some(id) = &step.id else { continue };
            match completed.output_for_steps() {
                Ok(output) => outputs.record(id, &output),
                Err(reason) => {
                    let kind = RefusalKind::Input;
                    let refusal = ToolRefusal { kind, reason };
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
    async fn refuse_unknown_secret(
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
        let refusal = ToolRefusal { kind, reason };
        let refused = self.runner.refuse(self.plan, &request, refusal).await?;
        Ok(ActorEnd::Failed(refused.reason))
    }

    /// A call that was made, now or before.
    async fn call(
        &self,
        handle: &SandboxHandle,
        request: ToolRequest,
    ) -> Result<std::result::Result<CompletedCall, ActorEnd>> {
        if let Some(known) = self.recorded_call(&request) {
            let stamps = self.stamps.get(&handle.id);
            stamps.iter().for_each(|stamps| restamp(stamps, known));
            return Ok(Ok(reuse_record(known)));
        }
        Ok(match self.call_or_reuse(handle, request).await? {
            CallOutcome::Completed(completed) => match failing_exit(&completed.record) {
                None => Ok(completed),
                Some(reason) => {
                    self.runner
                        .record_failure(self.plan, &completed.record, &reason)
                        .await?;
                    Err(ActorEnd::Failed(reason))
                }
            },
            CallOutcome::Failed(record) => Err(ActorEnd::Failed(record.error.unwrap_or_default())),
            CallOutcome::Stopped(why) => Err(ActorEnd::Stopped(why)),
            CallOutcome::Refused(refusal) => Err(match refusal.kind {
                RefusalKind::NeedsApproval => ActorEnd::Waiting {
                    waiting: WaitReason::Approval { decision: None },
                    reason: refusal.reason,
                },
                RefusalKind::Limit => ActorEnd::LimitReached(refusal.reason),
                _ => ActorEnd::Failed(refusal.reason),
            }),
        })
    }

    /// Makes a call, unless it was made before: then what came of it stands.
    pub(super) async fn call_or_reuse(
        &self,
        handle: &SandboxHandle,
        request: ToolRequest,
    ) -> Result<CallOutcome> {
        let missing = || ExecutionError::Internal {
            reason: format!("sandbox {} is not part of this step", handle.id),
        };
        let stamps = self.stamps.get(&handle.id).ok_or_else(missing)?;
        let changeset = self.changesets.get(&handle.id).ok_or_else(missing)?;
        if let Some(known) = self.recorded_call(&request) {
            restamp(stamps, known);
            return Ok(match known.state {
                ToolCallState::Completed => CallOutcome::Completed(reuse_record(known)),
                _ => CallOutcome::Failed(known.clone()),
            });
        }
        let context = ToolCallContext {
            plan: self.plan,
            sandbox: handle,
            changeset,
            stamps,
        };
        let request = match self.check_repeat(request).await? {
            Ok(request) => request,
            Err(refusal) => return Ok(CallOutcome::Refused(refusal)),
        };
        let outcome = self.runner.call(context, request.clone()).await?;
        if let CallOutcome::Refused(refusal) = &outcome
            && refusal.kind == RefusalKind::NeedsApproval
            && self.take_approval()
        {
            let approved = ToolRequest {
                approval: Approval::Given,
                ..request
            };
            return self.runner.call(context, approved).await;
        }
        Ok(outcome)
    }

    /// The confirmed call that this request is about. An actor that was changed meanwhile asks for
    /// something else at the same place, which was never done.
    fn recorded_call(&self, request: &ToolRequest) -> Option<&'a ToolCallRecord> {
        let position = (self.step, request.turn, request.slot);
        let known = self.call_history.calls.get(&position)?;
        let same = known.call.tool == request.tool
            && equal_ignoring_secrets(&known.call.input, &request.input);
        same.then_some(known)
    }

    /// A call that was interrupted and may have had effects outside the sandbox is repeated at a
    /// human's word only.
    async fn check_repeat(
        &self,
        request: ToolRequest,
    ) -> Result<std::result::Result<ToolRequest, ToolRefusal>> {
        let position = (self.step, request.turn, request.slot);
        let doubtful = self.call_history.doubtful.get(&position);
        let same = |it: &&ToolCallRecord| {
            it.call.tool == request.tool
                && equal_ignoring_secrets(&it.call.input, &request.input)
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
        let refusal = ToolRefusal {
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
fn reuse_record(record: &ToolCallRecord) -> CompletedCall {
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
fn restamp(stamps: &FileStamps, record: &ToolCallRecord) {
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
pub(super) fn ended_calls(calls: Vec<ToolCallRecord>) -> CallHistory {
    collect_calls(calls, |call| {
        matches!(
            call.state,
            ToolCallState::Completed | ToolCallState::Errored
        )
    })
}

/// The calls that need not be made again: a command that failed is one that is tried again.
pub(super) fn confirmed_calls(calls: Vec<ToolCallRecord>) -> CallHistory {
    collect_calls(calls, is_confirmed)
}

/// Of the calls at each spot, the last that stands and ended as `stands` says.
fn collect_calls(calls: Vec<ToolCallRecord>, stands: fn(&ToolCallRecord) -> bool) -> CallHistory {
    let mut known = CallHistory::default();
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
