//! Writes the records of a rebase in one transaction. So a base is never stored without its tree,
//! and a plan with an unvalidated tree can never be applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::event::payloads::{PlanRebased, ToolCompleted, ToolInvoked};
use cleveragents_domain::id::{AttachmentId, CheckpointId, PlanId, ToolCallId};
use cleveragents_domain::rebase::{RebasedResource, RebasedWork};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{
    ErrorCategory, Move, NamespacedName, NewEvent, Phase, Plan, StreamId, ValidationMode,
    ValidationResult, ValidationSummary,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::error::Result;
use super::{MovedSandbox, base_id};
use crate::error_history::{NewErrorRecord, record_error};
use crate::execution::checkpoints::{NewCheckpoint, create_checkpoint};
use crate::execution::{EngineServices, base_of};
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, move_plan};
use crate::undo::{RestorePoint, undo_after};
use cleveragents_ports::targets::{Conflict, ConflictReason};
use cleveragents_ports::{StoreError, Transaction};

/// The writes for all sandboxes of a plan.
pub(super) struct RebaseWrite {
    pub(super) services: Arc<EngineServices>,
    pub(super) plan: PlanId,
    /// The lists of refused changes of the attempt that ends here.
    pub(super) listed_refusals: Vec<ValidationResult>,
    pub(super) moved: Vec<MovedSandbox>,
    pub(super) resources: Vec<RebasedResource>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) outcome: RebasedWork,
    pub(super) actor: String,
}

/// A written rebase.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RebaseRecord {
    /// `execute/processing` with a result to validate, or `execute/queued`.
    pub(super) plan: Plan,
    /// The calls that stand for the rebase of each sandbox.
    pub(super) calls: Vec<ToolCallRecord>,
}

impl RebaseWrite {
    pub(super) fn write(&self, tx: &mut dyn Transaction) -> Result<RebaseRecord> {
        let before = tx.plan_for_update(self.plan)?;
        let round = last_round(tx, &before)?;
        let plan = self.return_to_execute(tx)?;
        let mut calls = Vec::new();
        let mut events = match self.outcome {
            RebasedWork::Merged => {
                calls = self.record_calls(tx, &plan)?;
                self.keep_work(tx, &plan, round, &calls)?
            }
            RebasedWork::Requeued => self.discard_work(tx, &plan)?,
        };
        let payload = PlanRebased {
            outcome: self.outcome,
            resources: self.resources.clone(),
            conflicts: self.conflicts.clone(),
        };
        events.push(new_event(&self.actor, &payload)?);
        tx.append(StreamId::Plan(self.plan), &events)?;
        let plan = tx.plan(self.plan)?;
        Ok(RebaseRecord { plan, calls })
    }

    /// Moves the plan back to Execute as a new attempt, so that earlier validation results do not
    /// count.
    fn return_to_execute(&self, tx: &mut dyn Transaction) -> Result<Plan> {
        let moves: &[Move] = match self.outcome {
            RebasedWork::Merged => &[Move::Correct(Phase::Execute), Move::Start],
            RebasedWork::Requeued => &[Move::Correct(Phase::Execute)],
        };
        let mut plan = tx.plan_for_update(self.plan)?;
        for requested in moves {
            let request = PlanMoveRequest {
                plan: self.plan,
                requested: *requested,
                actor: self.actor.clone(),
                reason: Some(self.reason()),
            };
            let moved = move_plan(tx, &*self.services.ids, &request, RepeatPolicy::Refuse)?;
            plan = moved.plan().clone();
        }
        Ok(plan)
    }

    /// Makes the merged trees the result.
    fn keep_work(
        &self,
        tx: &mut dyn Transaction,
        plan: &Plan,
        round: u32,
        calls: &[ToolCallRecord],
    ) -> Result<Vec<NewEvent>> {
        let mut events = self.call_events(calls)?;
        for moved in &self.moved {
            let record = SandboxRecord {
                tree: moved.tree.clone(),
                ..tx.sandbox(moved.record.id)?
            };
            self.set_base(tx, record, moved)?;
        }
        self.close_checkpoints(tx)?;
        let last = tx.count_tool_calls(self.plan, None)?;
        let moment = NewCheckpoint {
            plan,
            trigger: CheckpointTrigger::ToolWriteComplete,
            step: plan.last_completed_step,
            call_number: i64::try_from(last).unwrap_or(i64::MAX),
            decision_id: plan.decision_root_id,
            label: self.reason(),
        };
        let (ids, policy) = (&*self.services.ids, &self.services.policy.checkpoints);
        let (_, made) = create_checkpoint(tx, ids, policy, &moment, &self.actor)?;
        events.push(made);
        let stale = self.stale_summary(plan, round)?;
        tx.put_validation_run(self.plan, plan.attempt, round, &stale)?;
        Ok(events)
    }

    /// Records the rebase as a call after all others. Earlier calls worked on the old base, so they
    /// can no longer be undone individually.
    fn record_calls(&self, tx: &mut dyn Transaction, plan: &Plan) -> Result<Vec<ToolCallRecord>> {
        let mut calls = Vec::new();
        for moved in &self.moved {
            let missing = || StoreError::internal("a sandbox without a tree");
            let from = base_of(&moved.record).and_then(|base| base_id(&moved.record, &base));
            let call = tx.begin_tool_call(&NewToolCall {
                id: ToolCallId::new(self.services.ids.next()),
                plan_id: self.plan,
                attempt: plan.attempt,
                step: None,
                decision_id: None,
                turn: 1,
                slot: 1,
                tool: tool_name(),
                actor: NamespacedName::built_in("user"),
                sandbox_id: moved.record.id,
                input: json!({ "from": from, "to": base_id(&moved.record, &moved.base) }),
                side_effects: Vec::new(),
                tree_before: moved.record.tree.clone().ok_or_else(missing)?,
            })?;
            let end = ToolCallEnd {
                state: ToolCallState::Completed,
                output: Some(json!({})),
                error: None,
                tree_after: moved.tree.clone().ok_or_else(missing)?,
            };
            calls.push(tx.end_tool_call(call.call.id, &end)?);
        }
        Ok(calls)
    }

    /// Returns the events of the calls that stand for the rebase.
    fn call_events(&self, calls: &[ToolCallRecord]) -> Result<Vec<NewEvent>> {
        let mut events = Vec::with_capacity(2 * calls.len());
        for (ended, moved) in calls.iter().zip(&self.moved) {
            let missing = || StoreError::internal("a sandbox without a tree");
            let call = &ended.call;
            let payload = ToolInvoked {
                tool_call_id: call.id,
                number: ended.number,
                tool: call.tool.clone(),
                actor: call.actor.clone(),
                step: call.step,
                turn: call.turn,
                sandbox_id: call.sandbox_id,
                input: call.input.clone(),
            };
            events.push(new_event(&self.actor, &payload)?);
            let payload = ToolCompleted {
                tool_call_id: call.id,
                number: ended.number,
                tool: call.tool.clone(),
                duration_ms: None,
                changes: 0,
                omitted: None,
                exit_code: None,
                lines: None,
                tree: moved.tree.clone().ok_or_else(missing)?,
                error: None,
            };
            events.push(new_event(&self.actor, &payload)?);
        }
        Ok(events)
    }

    /// Resets the sandboxes to the current targets, with no completed step.
    fn discard_work(&self, tx: &mut dyn Transaction, plan: &Plan) -> Result<Vec<NewEvent>> {
        let mut plan = plan.clone();
        plan.last_completed_step = None;
        plan.version = tx.update_plan(&plan)?;
        let mut earlier = RestorePoint::initial(tx, self.plan)?;
        let bases = self.moved.iter();
        let bases: BTreeMap<_, _> = bases
            .map(|it| (it.record.id, it.base.tree.clone()))
            .collect();
        earlier.trees.extend(bases);
        let ids = &*self.services.ids;
        let back = undo_after(tx, ids, &plan, &earlier, &self.actor)?;
        for moved in &self.moved {
            let record = tx.sandbox(moved.record.id)?;
            self.set_base(tx, record, moved)?;
        }
        self.close_checkpoints(tx)?;
        let category = if self.has_removed_sandbox() {
            ErrorCategory::Resource
        } else {
            ErrorCategory::MergeConflict
        };
        let error_record = NewErrorRecord::new(category, self.conflict_message());
        record_error(tx, ids, self.plan, &error_record, &self.actor)?;
        Ok(back.into_iter().map(|(_, event)| event).collect())
    }

    fn set_base(
        &self,
        tx: &mut dyn Transaction,
        record: SandboxRecord,
        moved: &MovedSandbox,
    ) -> Result<()> {
        let record = SandboxRecord {
            base_tree: Some(moved.base.tree.clone()),
            base_commit: moved.base.commit.clone(),
            state: match record.state {
                SandboxState::Captured => SandboxState::Active,
                state => state,
            },
            updated_at: tx.now()?,
            ..record
        };
        tx.update_sandbox(&record)?;
        Ok(())
    }

    /// Marks all checkpoints as undone, because their trees belong to the old base. The id is not a
    /// checkpoint, so no rollback can restore them.
    fn close_checkpoints(&self, tx: &mut dyn Transaction) -> Result<()> {
        let by = CheckpointId::new(self.services.ids.next());
        tx.undo_checkpoints(self.plan, 0, by)?;
        Ok(())
    }

    /// Builds the summary that blocks Apply until everything is validated again. It uses up the
    /// rounds started so far, so that new repair attempts are not mistaken for earlier ones.
    fn stale_summary(&self, plan: &Plan, round: u32) -> Result<ValidationSummary> {
        let mut results = self.listed_refusals.clone();
        for result in &mut results {
            result.attempt = round;
        }
        let name = self.resources.first().map(|it| it.resource.clone());
        results.push(ValidationResult {
            validation: tool_name(),
            mode: ValidationMode::Required,
            passed: false,
            message: Some(
                "the plan was rebased, and nothing was validated since: `agents plan execute` \
                 does that"
                    .to_owned(),
            ),
            data: None,
            duration_ms: 0,
            attempt: round,
            attachment_id: AttachmentId::new(self.services.ids.next()),
            attachment_resource: name.unwrap_or_else(tool_name),
            attachment_scope: AttachmentScopeKind::Plan,
            attachment_scope_target: Some(plan.identity.plan_id.to_string()),
        });
        Ok(ValidationSummary::new(results))
    }

    /// Whether the work is repeated because the files of a sandbox are gone.
    fn has_removed_sandbox(&self) -> bool {
        let is_removed = |it: &Conflict| it.reason == ConflictReason::SandboxRemoved;
        self.conflicts.iter().any(is_removed)
    }

    fn reason(&self) -> String {
        if self.has_removed_sandbox() {
            return "A sandbox was removed; its work is redone".to_owned();
        }
        let moved = self.moved.iter();
        let moved = moved.map(|it| match it.base.commit.as_deref() {
            Some(commit) => {
                let short = commit.get(..7).unwrap_or(commit);
                format!("{} at {short}", it.record.resource_name)
            }
            None => format!("{} as it is now", it.record.resource_name),
        });
        format!("Rebased onto {}", moved.collect::<Vec<_>>().join(", "))
    }

    /// Returns the message for the actor that repeats the work.
    fn conflict_message(&self) -> String {
        let conflicts: Vec<String> = self.conflicts.iter().map(ToString::to_string).collect();
        if self.has_removed_sandbox() {
            return format!("{}. Redo the work in a new sandbox", conflicts.join("; "));
        }
        format!(
            "the targets have changed, and the result could not be merged: {}. The sandboxes have \
             the current files of the targets; redo the work on them",
            conflicts.join("; ")
        )
    }
}

/// The name under which rebases are recorded among the tool calls.
fn tool_name() -> NamespacedName {
    NamespacedName::built_in("rebase")
}

/// Returns the last round number of the newest `plan execute` request that started one.
fn last_round(tx: &mut dyn Transaction, plan: &Plan) -> Result<u32> {
    let stored = tx.newest_validation_run(plan.identity.plan_id, plan.attempt)?;
    let Some(summary) = stored else { return Ok(0) };
    let last = summary.results.iter().map(|it| it.attempt).max();
    let limit = plan.brief.automation_profile.limits.validation_retry_limit;
    let rounds = limit.saturating_add(1);
    Ok(last.unwrap_or(0).div_ceil(rounds).saturating_mul(rounds))
}
