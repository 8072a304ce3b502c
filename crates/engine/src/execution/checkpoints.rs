//! Checkpoints, created in the transaction of the change they belong to.

use std::collections::BTreeMap;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::event::payloads::CheckpointCreated;
use cleveragents_domain::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use cleveragents_domain::{NewEvent, Plan, TreeId};

use crate::journal::new_event;
use cleveragents_ports::{Ids, Result, Transaction};

/// When checkpoints are created automatically, and how many are kept per plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPolicy {
    pub triggers: Vec<CheckpointTrigger>,
    pub max_kept: u32,
}

impl Default for CheckpointPolicy {
    fn default() -> Self {
        Self {
            triggers: vec![
                CheckpointTrigger::ToolWrite,
                CheckpointTrigger::ToolWriteComplete,
                CheckpointTrigger::SubplanSpawn,
                CheckpointTrigger::Error,
            ],
            max_kept: 100,
        }
    }
}

impl CheckpointPolicy {
    /// Whether `plan` gets a checkpoint at this trigger. A profile that requires checkpoints gets
    /// one before every write, regardless of the configuration.
    pub fn requires(&self, plan: &Plan, trigger: CheckpointTrigger) -> bool {
        self.triggers.contains(&trigger)
            || (plan.brief.automation_profile.require_checkpoints
                && trigger == CheckpointTrigger::ToolWrite)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct NewCheckpoint<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trigger: CheckpointTrigger,
    pub(crate) step: Option<u32>,
    pub(crate) call_number: i64,
    pub(crate) decision_id: Option<DecisionId>,
    pub(crate) label: String,
}

/// Creates a checkpoint of the plan's sandboxes in this transaction, unless the newest checkpoint
/// has the same trees. Returns the event, which the caller must append.
pub(super) fn create_checkpoint_if_changed(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    policy: &CheckpointPolicy,
    new_checkpoint: &NewCheckpoint<'_>,
    actor: &str,
) -> Result<Option<NewEvent>> {
    let plan = new_checkpoint.plan.identity.plan_id;
    let trees = trees_of(tx, plan)?;
    let newest = tx.newest_checkpoint(plan)?;
    if newest.is_some_and(|it| it.trees == trees && it.undone_by.is_none()) {
        return Ok(None);
    }
    let (_, new_event) = create_checkpoint(tx, ids, policy, new_checkpoint, actor)?;
    Ok(Some(new_event))
}

/// Returns the trees of the plan's sandboxes in this transaction.
fn trees_of(tx: &mut dyn Transaction, plan: PlanId) -> Result<BTreeMap<SandboxId, TreeId>> {
    let sandboxes = tx.sandboxes_of(plan)?.into_iter();
    Ok(sandboxes
        .filter_map(|sandbox| Some((sandbox.id, sandbox.tree?)))
        .collect())
}

/// Creates a checkpoint of the plan's sandboxes in this transaction, even if nothing changed. The
/// caller must append the event.
pub(crate) fn create_checkpoint(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    policy: &CheckpointPolicy,
    new_checkpoint: &NewCheckpoint<'_>,
    actor: &str,
) -> Result<(Checkpoint, NewEvent)> {
    let plan = new_checkpoint.plan.identity.plan_id;
    let mut checkpoint = Checkpoint {
        id: CheckpointId::new(ids.next()),
        plan_id: plan,
        number: 0,
        trigger: new_checkpoint.trigger,
        phase: new_checkpoint.plan.position.phase(),
        attempt: new_checkpoint.plan.attempt,
        step: new_checkpoint.step,
        call_number: new_checkpoint.call_number,
        decision_id: new_checkpoint.decision_id,
        label: new_checkpoint.label.clone(),
        trees: trees_of(tx, plan)?,
        superseded: Vec::new(),
        created_at: tx.now()?,
        undone_by: None,
    };
    checkpoint.number = tx.insert_checkpoint(&checkpoint, policy.max_kept)?;
    let payload = CheckpointCreated {
        checkpoint_id: checkpoint.id,
        number: checkpoint.number,
        trigger: checkpoint.trigger,
        decision_id: checkpoint.decision_id,
        call_number: checkpoint.call_number,
        label: checkpoint.label.clone(),
        trees: checkpoint.trees.clone(),
    };
    let created = new_event(actor, &payload)?;
    Ok((checkpoint, created))
}
