//! Records of a rejection, before and after its files are changed.

use std::sync::Arc;

use cleveragents_domain::changeset::NewChange;
use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::event::payloads::{
    ChangeRejected, DecisionCreated, ToolCompleted, ToolInvoked,
};
use cleveragents_domain::id::{DecisionId, PlanId, ToolCallId};
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    Decision, DecisionType, FileOperation, NamespacedName, NewDecision, NewEvent, Plan, StreamId,
    TreeId, ValidationSummary,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Rejection;
use super::target::RejectionTarget;
use crate::execution::changesets::Changeset;
use crate::execution::checkpoints::{NewCheckpoint, create_checkpoint};
use crate::execution::services::EngineServices;
use crate::journal::new_event;
use cleveragents_ports::sandbox::NetChange;
use cleveragents_ports::{Result, StoreError, Transaction};

/// Number of calls that one read returns.
const PAGE: u32 = 500;

/// Returns the decisions of the plan's rejections after this call. They end with the rejections.
pub(in crate::execution) fn rejections_after(
    tx: &mut dyn Transaction,
    plan: PlanId,
    call_number: i64,
) -> Result<Vec<DecisionId>> {
    let (mut after, mut found) = (call_number, Vec::new());
    loop {
        let page = tx.tool_calls_after(plan, after, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        after = last.number;
        let rejections = page.iter().filter(|it| it.call.tool == tool_name());
        found.extend(rejections.filter_map(|it| it.call.decision_id));
    }
}

/// A recorded rejection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RejectionRecord {
    pub(super) call: ToolCallRecord,
    pub(super) checkpoint: Checkpoint,
}

pub(super) struct RejectionStart {
    pub(super) services: Arc<EngineServices>,
    pub(super) plan: Plan,
    pub(super) rejection: Rejection,
    pub(super) target: RejectionTarget,
    pub(super) call: ToolCallId,
    pub(super) decision: DecisionId,
}

/// Withdraws an approval of the apply: the user approved the result with what is rejected now.
fn withdraw_apply(tx: &mut dyn Transaction, plan: PlanId) -> Result<()> {
    let mut held = tx.plan_for_update(plan)?;
    if held.approvals.withdraw_apply() {
        tx.update_plan(&held)?;
    }
    Ok(())
}

impl RejectionStart {
    pub(super) fn write(&self, tx: &mut dyn Transaction) -> Result<RejectionRecord> {
        let (plan, actor) = (&self.plan, self.rejection.actor.as_str());
        let id = plan.identity.plan_id;
        withdraw_apply(tx, id)?;
        let mut events = Vec::new();
        let decision = self.record_decision(tx)?;
        events.extend(decision);
        let tree = self.target.record.tree.clone();
        let call = tx.begin_tool_call(&NewToolCall {
            id: self.call,
            plan_id: id,
            attempt: plan.attempt,
            step: None,
            decision_id: plan.decision_root_id.map(|_| self.decision),
            turn: 1,
            slot: 1,
            tool: tool_name(),
            actor: user_name(),
            sandbox_id: self.target.record.id,
            input: json!({
                "path": self.target.path,
                "hunk": self.target.hunk,
                "why": self.rejection.why,
            }),
            side_effects: Vec::new(),
            tree_before: tree.ok_or_else(|| StoreError::internal("a sandbox without a tree"))?,
        })?;
        let new_checkpoint = NewCheckpoint {
            plan,
            trigger: CheckpointTrigger::ToolWrite,
            step: plan.last_completed_step,
            call_number: call.number - 1,
            decision_id: plan.decision_root_id.map(|_| self.decision),
            label: format!("before rejecting {}", self.describe_target()),
        };
        let (ids, policy) = (&*self.services.ids, &self.services.policy.checkpoints);
        let (checkpoint, created) = create_checkpoint(tx, ids, policy, &new_checkpoint, actor)?;
        events.push(created);
        let invoked = ToolInvoked {
            tool_call_id: call.call.id,
            number: call.number,
            tool: call.call.tool.clone(),
            actor: call.call.actor.clone(),
            step: call.call.step,
            turn: call.call.turn,
            sandbox_id: call.call.sandbox_id,
            input: call.call.input.clone(),
        };
        events.push(new_event(actor, &invoked)?);
        tx.append(StreamId::Plan(id), &events)?;
        Ok(RejectionRecord { call, checkpoint })
    }

    fn describe_target(&self) -> String {
        match self.target.hunk {
            Some(hunk) => format!("hunk {hunk} of {}", self.target.path),
            None => self.target.path.to_string(),
        }
    }

    /// Records the user's reason as a decision, so that later attempts see it.
    fn record_decision(&self, tx: &mut dyn Transaction) -> Result<Option<NewEvent>> {
        let Some(root) = self.plan.decision_root_id else {
            return Ok(None);
        };
        let new = NewDecision {
            plan_id: self.plan.identity.plan_id,
            parent: Some(root),
            decision_type: DecisionType::UserIntervention,
            phase: self.plan.position.phase(),
            question: format!("Why is {} rejected?", self.describe_target()),
            chosen: self.rejection.why.clone(),
            rationale: format!("Requested by {}.", self.rejection.actor),
        };
        let mut decision = Decision::new(new, self.decision, tx.now()?);
        decision.sequence_number = tx.insert_decision(&decision)?;
        new_event(&self.rejection.actor, &DecisionCreated(decision)).map(Some)
    }
}

pub(super) struct RejectionEnd {
    pub(super) start: RejectionRecord,
    pub(super) changeset: Changeset,
    pub(super) changes: Vec<NewChange>,
    pub(super) tree: TreeId,
    pub(super) stale: ValidationSummary,
    pub(super) round: u32,
    pub(super) rejected: ChangeRejected,
    pub(super) actor: String,
}

impl RejectionEnd {
    pub(super) fn write(&self, tx: &mut dyn Transaction) -> Result<()> {
        let call = &self.start.call.call;
        let (plan, attempt) = (call.plan_id, call.attempt);
        let end = ToolCallEnd {
            state: ToolCallState::Completed,
            output: Some(json!({ "changes": self.changes.len() })),
            error: None,
            tree_after: self.tree.clone(),
        };
        let ended = tx.end_tool_call(call.id, &end)?;
        let mut sandbox = tx.sandbox(call.sandbox_id)?;
        sandbox.tree = Some(self.tree.clone());
        sandbox.updated_at = tx.now()?;
        tx.update_sandbox(&sandbox)?;
        tx.put_validation_run(plan, attempt, self.round, &self.stale)?;
        let (_, mut events) = self.changeset.record_in(tx, &self.actor, &self.changes)?;
        events.push(new_event(&self.actor, &self.rejected)?);
        let completed = ToolCompleted {
            tool_call_id: call.id,
            number: ended.number,
            tool: call.tool.clone(),
            duration_ms: None,
            changes: self.changes.len() as u64,
            omitted: None,
            exit_code: None,
            lines: None,
            tree: self.tree.clone(),
            error: None,
        };
        events.push(new_event(&self.actor, &completed)?);
        tx.append(StreamId::Plan(plan), &events)?;
        Ok(())
    }
}

pub(super) fn new_changes(call: &ToolCallRecord, changes: &[NetChange]) -> Vec<NewChange> {
    let change = |it: &NetChange| NewChange {
        path: it.path.clone(),
        operation: match (&it.before, &it.after) {
            (None, _) => FileOperation::Create,
            (Some(_), None) => FileOperation::Delete,
            (Some(old), Some(new)) if old.hash == new.hash => FileOperation::Mode,
            (Some(_), Some(_)) => FileOperation::Modify,
        },
        before: it.before.clone(),
        after: it.after.clone(),
        tool_call_id: call.call.id,
        call_number: call.number,
        actor: call.call.actor.clone(),
        step: None,
    };
    changes.iter().map(change).collect()
}

/// The name under which rejections are recorded among the tool calls.
pub(super) fn tool_name() -> NamespacedName {
    NamespacedName::built_in("reject")
}

fn user_name() -> NamespacedName {
    NamespacedName::built_in("user")
}
