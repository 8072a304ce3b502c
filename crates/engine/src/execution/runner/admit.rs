//! Admits a call: its checks, and the record that it started.

use std::sync::Arc;

use cleveragents_domain::automation::guards::{GuardRefusal, GuardedCall};
use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::event::payloads::{ToolInvoked, ToolRefused};
use cleveragents_domain::id::{PlanId, ToolCallId};
use cleveragents_domain::tool::{Repeatability, Safety, ToolAccess, control};
use cleveragents_domain::tool_call::{NewToolCall, ToolCallRecord};
use cleveragents_domain::{
    ErrorCategory, NamespacedName, NewEvent, Plan, RequiredRollback, StreamId, TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RefusalKind, ToolCallContext, ToolRefusal, ToolRequest, ToolRunner};
use crate::error_history::{NewErrorRecord, NewPlanError, record_plan_error};
use crate::execution::checkpoints::{NewCheckpoint, create_checkpoint_if_changed};
use crate::execution::error::Result;
use crate::execution::rollback::rollback_before;
use crate::journal::new_event;
use cleveragents_domain::secret_mask::{find_mask_in, refusal_message};
use cleveragents_ports::{Ids, StoreError, Transaction};

/// Longest input that is copied into the journal, in bytes of JSON. The call's row has the full
/// input.
const JOURNAL_INPUT_MAXIMUM: usize = 16 * 1024;

/// Whether a call may start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum ToolCallAdmission {
    Go(Box<ToolCallRecord>),
    Refused(ToolRefusal),
}

impl ToolRunner {
    /// Checks that need no store access: the tool exists, the input matches its schema, and the
    /// plan may use it.
    pub(super) fn admit(
        &self,
        plan: &Plan,
        request: &ToolRequest,
    ) -> std::result::Result<ToolAccess, ToolRefusal> {
        let refused = |kind, reason: String| ToolRefusal { kind, reason };
        let Some(tool) = self.toolbox.tool(&request.tool) else {
            let reason = format!("there is no tool {}", request.tool);
            return Err(refused(RefusalKind::UnknownTool, reason));
        };
        let capability = &tool.definition().capability;
        // Decided by the capability flag, not by the tool's name: new tools are covered without a
        // list.
        if plan.brief.read_only && capability.access == ToolAccess::Writes {
            let reason = format!(
                "the tool {} writes, but the plan is read-only",
                request.tool
            );
            return Err(refused(RefusalKind::ReadOnlyPlan, reason));
        }
        let profile = &plan.brief.automation_profile;
        if capability.safety == Safety::Unsafe && !profile.allow_unsafe_tools {
            let reason = format!(
                "the tool {} is unsafe, and the profile {} does not allow such tools",
                request.tool, profile.name
            );
            return Err(refused(RefusalKind::UnsafeTool, reason));
        }
        // A mask that reaches a file would stand there in place of the real secret. Control tools
        // write no files, and their texts may quote one.
        if !control::is_control_tool(&request.tool)
            && let Some(mask) = find_mask_in(&request.input)
        {
            return Err(refused(RefusalKind::Input, refusal_message(mask)));
        }
        tool.check_input(&request.input)
            .map_err(|failure| refused(RefusalKind::Input, failure.to_string()))?;
        Ok(capability.access)
    }

    /// Returns the effects of the tool outside the sandbox that must not be repeated.
    fn once_only_effects(&self, tool: &NamespacedName) -> Vec<String> {
        let tool = self.toolbox.tool(tool);
        let capability = tool.map(|tool| &tool.definition().capability);
        match capability {
            Some(it) if it.repeatable == Repeatability::OnceOnly => it.side_effects.clone(),
            _ => Vec::new(),
        }
    }

    /// Checks the guards and records the call, in one transaction.
    pub(super) async fn record_start(
        &self,
        context: &ToolCallContext<'_>,
        request: &ToolRequest,
        access: ToolAccess,
        tree: &TreeId,
    ) -> Result<ToolCallAdmission> {
        let start = ToolCallStart {
            runner: self.clone(),
            plan: context.plan.clone(),
            request: request.clone(),
            access,
            call: NewToolCall {
                id: ToolCallId::new(self.ids.next()),
                plan_id: context.plan.identity.plan_id,
                attempt: context.plan.attempt,
                step: request.step,
                decision_id: self.decision,
                turn: request.turn,
                slot: request.slot,
                tool: request.tool.clone(),
                actor: request.actor.clone(),
                sandbox_id: context.sandbox.id,
                // Masked before it leaves memory: the store and the journal never have the secret.
                input: self.mask(&request.input),
                side_effects: self.once_only_effects(&request.tool),
                tree_before: tree.clone(),
            },
        };
        self.owner
            .write(self.operation("tool.begin"), move |tx| Ok(start.write(tx)?))
            .await
    }

    /// Returns the value with secrets masked.
    pub(in crate::execution) fn mask(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.secrets.mask_json(&mut value);
        value
    }

    /// Returns the refusal with secrets masked: its text may quote the input.
    fn mask_refusal(&self, refusal: ToolRefusal) -> ToolRefusal {
        let reason = self.secrets.mask(&refusal.reason).into_owned();
        ToolRefusal { reason, ..refusal }
    }

    /// Records that a call was refused.
    pub(in crate::execution) async fn refuse(
        &self,
        plan: &Plan,
        request: &ToolRequest,
        refusal: ToolRefusal,
    ) -> Result<ToolRefusal> {
        let (ids, actor) = (Arc::clone(&self.ids), self.owner.actor());
        let refusal = self.mask_refusal(refusal);
        let refused = RefusedCall {
            plan: plan.identity.plan_id,
            request: request.clone(),
            refusal: refusal.clone(),
            rollback: None,
        };
        self.owner
            .write(self.operation("tool.refuse"), move |tx| {
                record_refusal(tx, &*ids, &refused, &actor)?;
                Ok(refusal.clone())
            })
            .await
    }

    /// Puts on record that later steps lack the output of a confirmed call, because its record has
    /// `mask` in the place of a secret. Only making that call again helps, so the hint says how.
    pub(in crate::execution) async fn refuse_masked_output(
        &self,
        plan: &Plan,
        request: &ToolRequest,
        call_number: i64,
        mask: &str,
    ) -> Result<ToolRefusal> {
        let (ids, actor) = (Arc::clone(&self.ids), self.owner.actor());
        let (plan, request, mask) = (plan.clone(), request.clone(), mask.to_owned());
        self.owner
            .write(self.operation("tool.refuse"), move |tx| {
                let id = plan.identity.plan_id;
                let rollback = rollback_before(tx, id, call_number)?;
                let reason = format!(
                    "the output of call {call_number} had a secret ({mask}), which is not stored, \
                     so the steps that need it cannot go on; to make the call again, run \
                     `agents plan rollback {id} {}`, then `agents plan execute {id}`",
                    rollback.checkpoint
                );
                let kind = RefusalKind::Input;
                let refused = RefusedCall {
                    plan: id,
                    request: request.clone(),
                    refusal: ToolRefusal { kind, reason },
                    rollback: Some(rollback),
                };
                record_refusal(tx, &*ids, &refused, &actor)?;
                Ok(refused.refusal)
            })
            .await
    }
}

struct ToolCallStart {
    runner: ToolRunner,
    plan: Plan,
    request: ToolRequest,
    access: ToolAccess,
    call: NewToolCall,
}

impl ToolCallStart {
    fn write(
        &self,
        tx: &mut dyn Transaction,
    ) -> std::result::Result<ToolCallAdmission, StoreError> {
        let actor = self.runner.owner.actor();
        let ids = &*self.runner.ids;
        if let Err(refusal) = self.check_guards(tx)? {
            let refusal = self.runner.mask_refusal(refusal);
            let refused = RefusedCall {
                plan: self.call.plan_id,
                request: self.request.clone(),
                refusal,
                rollback: None,
            };
            // The refusal and the counts that caused it are of one transaction.
            record_refusal(tx, ids, &refused, &actor)?;
            return Ok(ToolCallAdmission::Refused(refused.refusal));
        }
        let record = tx.begin_tool_call(&self.call)?;
        let mut events: Vec<NewEvent> = Vec::new();
        let writes = self.access == ToolAccess::Writes;
        if writes
            && self
                .runner
                .policy
                .requires(&self.plan, CheckpointTrigger::ToolWrite)
        {
            let new_checkpoint = NewCheckpoint {
                plan: &self.plan,
                trigger: CheckpointTrigger::ToolWrite,
                step: self.call.step,
                // The checkpoint is of the tree before this call, so it belongs to the previous
                // number.
                call_number: record.number - 1,
                decision_id: self.runner.decision,
                label: format!("before {}", self.call.tool),
            };
            events.extend(create_checkpoint_if_changed(
                tx,
                ids,
                &self.runner.policy,
                &new_checkpoint,
                &actor,
            )?);
        }
        let invoked = ToolInvoked {
            tool_call_id: record.call.id,
            number: record.number,
            tool: record.call.tool.clone(),
            actor: record.call.actor.clone(),
            step: record.call.step,
            turn: record.call.turn,
            sandbox_id: record.call.sandbox_id,
            input: abridge_input(&record.call.input),
        };
        events.push(new_event(&actor, &invoked)?);
        tx.append(StreamId::Plan(self.call.plan_id), &events)?;
        Ok(ToolCallAdmission::Go(Box::new(record)))
    }

    /// Checks the profile's guards against the counts in this transaction.
    fn check_guards(
        &self,
        tx: &mut dyn Transaction,
    ) -> std::result::Result<std::result::Result<(), ToolRefusal>, StoreError> {
        let plan = self.call.plan_id;
        let guards = &self.plan.brief.automation_profile.guards;
        if guards.max_tool_calls_per_step.is_some() {
            // The lock serialises calls that start at the same moment, so each is counted.
            tx.plan_for_update(plan)?;
        }
        let step = self.call.step.map(|step| (self.call.attempt, step));
        let calls = tx.count_tool_calls(plan, step)?;
        let guarded = GuardedCall {
            tool: &self.call.tool,
            access: self.access,
            calls_so_far: u32::try_from(calls).unwrap_or(u32::MAX),
            // Includes calls that were undone: their cost was paid.
            cost_so_far: tx.model_totals(plan)?.counted().usd.unwrap_or(0.0),
            approval: self.request.approval,
        };
        let checked = guards.check(&guarded);
        Ok(checked.map_err(|refusal| ToolRefusal {
            kind: match refusal {
                GuardRefusal::Denied { .. } | GuardRefusal::NotAllowed { .. } => RefusalKind::Guard,
                GuardRefusal::TooManyCalls { .. } | GuardRefusal::CostLimit { .. } => {
                    RefusalKind::Limit
                }
                GuardRefusal::WriteNeedsApproval { .. } => RefusalKind::NeedsApproval,
            },
            reason: refusal.to_string(),
        }))
    }
}

struct RefusedCall {
    plan: PlanId,
    request: ToolRequest,
    refusal: ToolRefusal,
    /// If set, nothing else helps.
    rollback: Option<RequiredRollback>,
}

/// Records a refusal as an event. One that the user cannot override is also recorded as an error of
/// the plan.
fn record_refusal(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    refused: &RefusedCall,
    actor: &str,
) -> std::result::Result<(), StoreError> {
    let RefusedCall {
        plan: id,
        request,
        refusal,
        rollback,
    } = refused;
    if refusal.kind != RefusalKind::NeedsApproval {
        let new_error = NewErrorRecord {
            category: match refusal.kind {
                RefusalKind::Limit => ErrorCategory::Budget,
                RefusalKind::Resource => ErrorCategory::Resource,
                _ => ErrorCategory::Tool,
            },
            message: refusal.reason.clone(),
            step: request.step,
            cause_chain: Vec::new(),
        };
        let plan_error = NewPlanError {
            plan: *id,
            error: &new_error,
            rollback: rollback.clone(),
        };
        record_plan_error(tx, ids, &plan_error, actor)?;
    }
    let refused = ToolRefused {
        tool: request.tool.clone(),
        actor: request.actor.clone(),
        step: request.step,
        turn: request.turn,
        kind: refusal.kind,
        reason: refusal.reason.clone(),
    };
    tx.append(StreamId::Plan(*id), &[new_event(actor, &refused)?])?;
    Ok(())
}

/// Returns the input as stored in the journal, shortened if it is too long.
fn abridge_input(input: &Value) -> Value {
    let text = input.to_string();
    if text.len() <= JOURNAL_INPUT_MAXIMUM {
        return input.clone();
    }
    json!({
        "left_out_bytes": text.len(),
        "hash": blake3::hash(text.as_bytes()).to_hex().as_str(),
    })
}
