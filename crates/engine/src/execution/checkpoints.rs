//! Checkpoints, made in the transaction of what they are about.

use std::collections::BTreeMap;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use cleveragents_domain::{EventKind, NewEvent, Plan, TreeId};
use serde_json::json;

use crate::journal::event;
use crate::ports::{Ids, Result, Unit};

/// When checkpoints are made by themselves, and how many are kept of each plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPolicy {
    pub triggers: Vec<CheckpointTrigger>,
    pub keep: u32,
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
            keep: 100,
        }
    }
}

impl CheckpointPolicy {
    /// Whether `plan` gets a checkpoint at this moment. A profile that requires checkpoints has
    /// one before every write, whatever is configured.
    pub fn wants(&self, plan: &Plan, trigger: CheckpointTrigger) -> bool {
        self.triggers.contains(&trigger)
            || (plan.brief.automation_profile.require_checkpoints
                && trigger == CheckpointTrigger::ToolWrite)
    }
}

/// What a checkpoint is about.
#[derive(Debug, Clone)]
pub(crate) struct Moment<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trigger: CheckpointTrigger,
    pub(crate) step: Option<u32>,
    pub(crate) call_number: i64,
    pub(crate) decision_id: Option<DecisionId>,
    pub(crate) label: String,
}

/// Keeps how the plan's sandboxes stand in this transaction, unless the newest checkpoint holds
/// just that. Answers with the event to be appended.
pub(super) fn keep(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    policy: &CheckpointPolicy,
    moment: &Moment<'_>,
    actor: &str,
) -> Result<Option<NewEvent>> {
    let plan = moment.plan.identity.plan_id;
    let trees = trees_of(unit, plan)?;
    let newest = unit.newest_checkpoint(plan)?;
    if newest.is_some_and(|it| it.trees == trees && it.undone_by.is_none()) {
        return Ok(None);
    }
    let (_, made) = make(unit, ids, policy, moment, actor)?;
    Ok(Some(made))
}

/// How the plan's sandboxes stand in this transaction.
fn trees_of(unit: &mut dyn Unit, plan: PlanId) -> Result<BTreeMap<SandboxId, TreeId>> {
    let sandboxes = unit.sandboxes_of(plan)?.into_iter();
    Ok(sandboxes
        .filter_map(|sandbox| Some((sandbox.id, sandbox.tree?)))
        .collect())
}

/// Keeps how the plan's sandboxes stand in this transaction, whatever was kept before. The event
/// is for the caller to append.
pub(crate) fn make(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    policy: &CheckpointPolicy,
    moment: &Moment<'_>,
    actor: &str,
) -> Result<(Checkpoint, NewEvent)> {
    let plan = moment.plan.identity.plan_id;
    let mut checkpoint = Checkpoint {
        id: CheckpointId::new(ids.next()),
        plan_id: plan,
        number: 0,
        trigger: moment.trigger,
        phase: moment.plan.position.phase(),
        attempt: moment.plan.attempt,
        step: moment.step,
        call_number: moment.call_number,
        decision_id: moment.decision_id,
        label: moment.label.clone(),
        trees: trees_of(unit, plan)?,
        superseded: Vec::new(),
        created_at: unit.now()?,
        undone_by: None,
    };
    checkpoint.number = unit.insert_checkpoint(&checkpoint, policy.keep)?;
    let made = json!({
        "checkpoint_id": checkpoint.id,
        "number": checkpoint.number,
        "trigger": checkpoint.trigger,
        "decision_id": checkpoint.decision_id,
        "call_number": checkpoint.call_number,
        "label": checkpoint.label,
        "trees": checkpoint.trees,
    });
    let made = event(EventKind::CheckpointCreated, actor, &made)?;
    Ok((checkpoint, made))
}
