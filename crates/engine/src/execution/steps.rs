//! Runs an actor of type `tool`: its calls, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::actor::ActorStep;
use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::SandboxId;
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, WaitReason};
use serde_json::Value;

use super::context::Changeset;
use super::error::{ExecutionError, Result};
use super::execute_phase::PhaseContext;
use super::plan_run::PlanRun;
use super::runner::{
    CallOutcome, CallOutput, CompletedCall, RefusalKind, ToolCallContext, ToolRefusal, ToolRequest,
    ToolRunner,
};
use super::workspace::SandboxHandle;
use crate::actors::{StepAction, render_step};
use crate::secrets::equal_ignoring_secrets;
use crate::secrets::references::UnknownSecret;
use cleveragents_definitions::interpolation::StepOutputs;
use cleveragents_domain::secret_mask::find_mask_in;
use cleveragents_ports::StopReason;
use cleveragents_ports::tools::FileStamps;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActorEnd {
    Done,
    /// The error is recorded with the plan.
    Failed(String),
    /// The error is recorded with the plan. The model gave no answer despite all retries.
    NoAnswer(String),
    /// The plan waits for something that its owner cannot do itself.
    Waiting {
        waiting: WaitReason,
        reason: String,
    },
    /// A limit of the profile was reached.
    LimitReached(String),
    Stopped(StopReason),
}

/// Step, turn and slot of a call.
type CallPosition = (u32, u32, u32);

/// The earlier calls of a plan.
#[derive(Debug, Default)]
pub(super) struct CallHistory {
    /// Calls that need not be made again.
    calls: HashMap<CallPosition, ToolCallRecord>,
    /// Interrupted calls that may have had effects outside the sandbox. They cannot be undone, and
    /// they must not be repeated without the user's approval.
    doubtful: HashMap<CallPosition, ToolCallRecord>,
}

/// Execution of one step of a strategy.
pub(super) struct StepWork<'a> {
    pub(super) run: &'a PlanRun,
    pub(super) context: &'a PhaseContext,
    /// Makes the calls of this step.
    pub(super) runner: &'a ToolRunner,
    pub(super) step: u32,
    /// Turn number of the actor's first turn.
    pub(super) first_turn: u32,
    changesets: BTreeMap<SandboxId, Changeset>,
    stamps: BTreeMap<SandboxId, Arc<FileStamps>>,
}

impl<'a> StepWork<'a> {
    /// Starts a changeset in every sandbox.
    pub(super) async fn begin(
        run: &'a PlanRun,
        context: &'a PhaseContext,
        runner: &'a ToolRunner,
        step: u32,
    ) -> Result<Self> {
        let mut changesets = BTreeMap::new();
        let mut stamps = BTreeMap::new();
        let recorder = run.context();
        for handle in &context.workspace.sandboxes {
            let changeset = recorder
                .start_changeset(handle.id, run.plan.attempt, Some(step))
                .await?;
            changesets.insert(handle.id, changeset);
            stamps.insert(handle.id, Arc::new(FileStamps::new()));
        }
        Ok(Self {
            run,
            context,
            runner,
            step,
            first_turn: 0,
            changesets,
            stamps,
        })
    }

    /// Restores the file stamps of earlier calls: the actor knows the files that they read and
    /// wrote.
    pub(super) fn restore_stamps(&self, calls: &[ToolCallRecord]) {
        for call in calls.iter().filter(|it| it.undone_by.is_none()) {
            if let Some(stamps) = self.stamps.get(&call.call.sandbox_id) {
                restamp(stamps, call);
            }
        }
    }

    /// Closes the changesets of this step.
    pub(super) async fn close(&self) -> Result<()> {
        for changeset in self.changesets.values() {
            changeset.close().await?;
        }
        Ok(())
    }

    /// Makes the calls of a tool actor. Confirmed calls are not made again; their recorded outputs
    /// are used.
    pub(super) async fn run_steps(
        &self,
        actor: &NamespacedName,
        steps: &[ActorStep],
        first_turn: u32,
    ) -> Result<ActorEnd> {
        let mut outputs = StepOutputs::default();
        // Arguments are stored as references to secrets. Calls get the values.
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
            let handle = match self.context.workspace.sandbox(rendered.resource.as_ref()) {
                Ok(handle) => handle,
                Err(refusal) => {
                    let refused = self
                        .runner
                        .refuse(&self.run.plan, &request, refusal)
                        .await?;
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
                Err(mask) => {
                    let number = completed.record.number;
                    let refuse =
                        self.runner
                            .refuse_masked_output(&self.run.plan, &request, number, &mask);
                    return Ok(ActorEnd::Failed(refuse.await?.reason));
                }
            }
        }
        Ok(ActorEnd::Done)
    }

    /// Returns the plan's arguments with secret references replaced by the values known to this
    /// process.
    fn resolved_arguments(&self) -> std::result::Result<BTreeMap<String, Value>, UnknownSecret> {
        let arguments = self.run.plan.brief.arguments.iter();
        let secrets = &self.runner.secrets;
        let resolve = |(name, value): (&String, &Value)| {
            secrets.resolve(value).map(|value| (name.clone(), value))
        };
        arguments.map(resolve).collect()
    }

    /// Records the error that an argument refers to a secret unknown to this process.
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
        let refused = self
            .runner
            .refuse(&self.run.plan, &request, refusal)
            .await?;
        Ok(ActorEnd::Failed(refused.reason))
    }

    /// Makes a call or reuses the recorded one, for a tool actor.
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
                        .record_failure(&self.run.plan, &completed.record, &reason)
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

    /// Makes a call, or returns the recorded outcome if it was made before.
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
            plan: &self.run.plan,
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
            && self.run.take_approval()
        {
            let approved = ToolRequest {
                approval: Approval::Given,
                ..request
            };
            return self.runner.call(context, approved).await;
        }
        Ok(outcome)
    }

    /// Returns the confirmed call that matches this request. If the actor was changed meanwhile, a
    /// recorded call at the same position may differ from the request; it does not match then.
    fn recorded_call(&self, request: &ToolRequest) -> Option<&'a ToolCallRecord> {
        let position = (self.step, request.turn, request.slot);
        let known = self.context.call_history.calls.get(&position)?;
        let same = known.call.tool == request.tool
            && equal_ignoring_secrets(&known.call.input, &request.input);
        same.then_some(known)
    }

    /// Requires the user's approval to repeat an interrupted call that may have had effects outside
    /// the sandbox.
    async fn check_repeat(
        &self,
        request: ToolRequest,
    ) -> Result<std::result::Result<ToolRequest, ToolRefusal>> {
        let position = (self.step, request.turn, request.slot);
        let doubtful = self.context.call_history.doubtful.get(&position);
        let same = |it: &&ToolCallRecord| {
            it.call.tool == request.tool
                && equal_ignoring_secrets(&it.call.input, &request.input)
                && it.call.attempt == self.run.plan.attempt
        };
        let Some(doubtful) = doubtful.filter(same) else {
            return Ok(Ok(request));
        };
        if self.run.take_approval() {
            // Approval to repeat the call is also approval of the call itself.
            return Ok(Ok(ToolRequest {
                approval: Approval::Given,
                ..request
            }));
        }
        let refusal = ToolRefusal {
            kind: RefusalKind::NeedsApproval,
            reason: format!(
                "call {} of {} was interrupted, and what it may have done outside the sandbox is \
                 not undone ({}): `agents plan execute` repeats it, `agents plan rollback` \
                 restores the state before it",
                doubtful.number,
                request.tool,
                doubtful.call.side_effects.join(", ")
            ),
        };
        Ok(Err(self
            .runner
            .refuse(&self.run.plan, &request, refusal)
            .await?))
    }
}

/// Builds the result of a call that an earlier owner made.
fn reuse_record(record: &ToolCallRecord) -> CompletedCall {
    CompletedCall {
        record: record.clone(),
        output: CallOutput::Recorded,
    }
}

impl CompletedCall {
    /// Returns the output for later steps. Fails with the mask if only the record is left and it
    /// contains masked secrets: a mask must not be used as a value, and the original form of the
    /// secret is unknown.
    fn output_for_steps(&self) -> std::result::Result<Value, String> {
        match &self.output {
            CallOutput::Unmasked(output) => Ok(output.clone()),
            CallOutput::Recorded => {
                let output = self.record.output.clone().unwrap_or(Value::Null);
                match find_mask_in(&output) {
                    None => Ok(output),
                    Some(mask) => Err(mask.to_string()),
                }
            }
        }
    }
}

/// Returns why a command that ran counts as failed. A step that wants to inspect the exit code must
/// make the command print it.
fn failing_exit(record: &ToolCallRecord) -> Option<String> {
    let code = record.output.as_ref()?.get("exit_code")?.as_i64()?;
    (code != 0).then(|| format!("{} ended with exit code {code}", record.call.tool))
}

/// Stamps the file that an earlier call of this step read or wrote.
fn restamp(stamps: &FileStamps, record: &ToolCallRecord) {
    let Some(output) = &record.output else {
        return;
    };
    let text = |key| output.get(key).and_then(Value::as_str);
    // A copied or moved file is stamped at its destination.
    let path = text("path").or_else(|| text("to"));
    if let (Some(path), Some(hash)) = (path, text("hash"))
        && let Ok(path) = path.parse()
    {
        stamps.stamp(&path, hash);
    }
}

/// Whether a call succeeded. A command must have exited with 0.
pub(super) fn is_confirmed(call: &ToolCallRecord) -> bool {
    call.state == ToolCallState::Completed && failing_exit(call).is_none()
}

/// Returns all ended calls, failed ones included, because a model has seen their outcome.
pub(super) fn ended_calls(calls: Vec<ToolCallRecord>) -> CallHistory {
    collect_calls(calls, |call| {
        matches!(
            call.state,
            ToolCallState::Completed | ToolCallState::Errored
        )
    })
}

/// Returns the calls that need not be made again. A failed command is retried.
pub(super) fn confirmed_calls(calls: Vec<ToolCallRecord>) -> CallHistory {
    collect_calls(calls, is_confirmed)
}

/// Collects, for each position, the last call that is not undone and for which `is_kept`
/// returns true.
fn collect_calls(calls: Vec<ToolCallRecord>, is_kept: fn(&ToolCallRecord) -> bool) -> CallHistory {
    let mut known = CallHistory::default();
    for call in calls {
        let Some(step) = call.call.step else { continue };
        let spot = (step, call.call.turn, call.call.slot);
        // Only the last call at a position counts.
        known.doubtful.remove(&spot);
        if call.state == ToolCallState::Interrupted && !call.call.side_effects.is_empty() {
            known.doubtful.insert(spot, call);
        } else if is_kept(&call) && call.undone_by.is_none() {
            known.calls.insert(spot, call);
        }
    }
    known
}
