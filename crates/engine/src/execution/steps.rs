//! Runs an actor of type `tool`: its calls, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind, ActorStep};
use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::id::{SandboxId, ToolCallId};
use cleveragents_domain::progress::Progress;
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, WaitReason};
use serde_json::Value;

use super::call_index::{CallIndex, CallPosition, OutsideEffects, load_call};
use super::changesets::Changeset;
use super::error::{ExecutionError, Result};
use super::execute_phase::PhaseContext;
use super::plan_run::{PlanRun, report};
use super::runner::{
    CallOutcome, CallOutput, CompletedCall, RefusalKind, ToolCallContext, ToolRefusal, ToolRequest,
    ToolRunner, exit_code,
};
use super::workspace::SandboxHandle;
use crate::actors::{StepAction, render_step};
use crate::secrets::equal_ignoring_secrets;
use crate::secrets::references::UnknownSecret;
use cleveragents_definitions::interpolation::StepOutputs;
use cleveragents_domain::secret_mask::find_mask_in;
use cleveragents_ports::tools::FileStamps;
use cleveragents_ports::{StopReason, StoreHandle};

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

/// The earlier calls of a plan at each position.
#[derive(Debug, Default)]
pub(super) struct CallHistory {
    /// Calls that may not have to be made again, oldest first.
    calls: HashMap<CallPosition, Vec<ToolCallId>>,
    /// Interrupted calls that may have had effects outside the sandbox. They cannot be undone, and
    /// they must not be repeated without the user's approval.
    doubtful: HashMap<CallPosition, ToolCallId>,
    /// Whether a call that ended badly counts.
    reuse: ReusePolicy,
}

/// Which ended calls are not made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReusePolicy {
    /// Those that succeeded. A failed command is retried.
    #[default]
    Confirmed,
    /// All of them, because a model has seen their outcome.
    Ended,
}

impl CallHistory {
    /// Collects the calls at each position that are not undone.
    pub(super) fn new(index: &CallIndex, actor: &Actor) -> Self {
        let reuse = match actor.kind {
            // The stored conversation contains the failure, so the model continues from there.
            ActorKind::Llm(_) => ReusePolicy::Ended,
            // Fixed steps cannot react to a failure, so a failed call is made again.
            ActorKind::Tool(_) | ActorKind::Direct => ReusePolicy::Confirmed,
        };
        let mut known = Self {
            reuse,
            ..Self::default()
        };
        for call in index.select(|_| true) {
            let Some(position) = call.position else {
                continue;
            };
            // Only the last call at a position counts.
            known.doubtful.remove(&position);
            let is_interrupted = call.state == ToolCallState::Interrupted;
            if is_interrupted && call.effects == OutsideEffects::OnceOnly {
                known.doubtful.insert(position, call.id);
            } else if known.may_reuse(call.state) && call.is_valid() {
                known.calls.entry(position).or_default().push(call.id);
            }
        }
        known
    }

    fn may_reuse(&self, state: ToolCallState) -> bool {
        match self.reuse {
            ReusePolicy::Confirmed => state == ToolCallState::Completed,
            ReusePolicy::Ended => {
                matches!(state, ToolCallState::Completed | ToolCallState::Errored)
            }
        }
    }

    /// Reads the last call at this position that need not be made again.
    async fn call_at(
        &self,
        store: &StoreHandle,
        position: CallPosition,
    ) -> Result<Option<ToolCallRecord>> {
        for id in self.calls.get(&position).into_iter().flatten().rev() {
            let call = load_call(store, *id).await?;
            if self.reuse == ReusePolicy::Ended || is_confirmed(&call) {
                return Ok(Some(call));
            }
        }
        Ok(None)
    }
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
        // Resolved per run and never stored: only this process's memory has the values.
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
                // Recorded as an output, so that later templates can test it.
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
        if let Some(known) = self.recorded_call(&request).await? {
            let stamps = self.stamps.get(&handle.id);
            stamps.iter().for_each(|stamps| restamp(stamps, &known));
            return Ok(Ok(reuse_record(known)));
        }
        Ok(match self.call_or_reuse(handle, request).await? {
            // The call itself succeeded and stays recorded. Only a step of a tool actor treats the
            // exit code as an error.
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
        if let Some(known) = self.recorded_call(&request).await? {
            restamp(stamps, &known);
            return Ok(match known.state {
                ToolCallState::Completed => CallOutcome::Completed(reuse_record(known)),
                _ => CallOutcome::Failed(known),
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
        let tool = request.tool.clone();
        report(self.run, Progress::CallStarted { tool });
        let outcome = self.runner.call(context, request.clone()).await?;
        if let CallOutcome::Refused(refusal) = &outcome
            && refusal.kind == RefusalKind::NeedsApproval
            && self.run.approvals.take()
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
    async fn recorded_call(&self, request: &ToolRequest) -> Result<Option<ToolCallRecord>> {
        let position = (self.step, request.turn, request.slot);
        let (history, store) = (&self.context.call_history, &self.run.services.store);
        let Some(known) = history.call_at(store, position).await? else {
            return Ok(None);
        };
        let same = known.call.tool == request.tool
            && equal_ignoring_secrets(&known.call.input, &request.input);
        Ok(same.then_some(known))
    }

    /// Requires the user's approval to repeat an interrupted call that may have had effects outside
    /// the sandbox.
    async fn check_repeat(
        &self,
        request: ToolRequest,
    ) -> Result<std::result::Result<ToolRequest, ToolRefusal>> {
        let position = (self.step, request.turn, request.slot);
        let doubtful = match self.context.call_history.doubtful.get(&position) {
            Some(id) => Some(load_call(&self.run.services.store, *id).await?),
            None => None,
        };
        let same = |it: &ToolCallRecord| {
            it.call.tool == request.tool
                && equal_ignoring_secrets(&it.call.input, &request.input)
                && it.call.attempt == self.run.plan.attempt
        };
        let Some(doubtful) = doubtful.filter(same) else {
            return Ok(Ok(request));
        };
        if self.run.approvals.take() {
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
fn reuse_record(record: ToolCallRecord) -> CompletedCall {
    CompletedCall {
        record,
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
    let code = exit_code(record)?;
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
