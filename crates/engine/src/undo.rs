//! Undoes work of a plan in its records: later calls, changes and checkpoints are marked, never
//! removed. The files follow when the sandboxes are opened next.

use std::collections::BTreeMap;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::event::payloads::CheckpointRestored;
use cleveragents_domain::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{NewEvent, Plan, Timestamp, TreeId};
use serde::{Deserialize, Serialize};

use crate::journal::new_event;
use cleveragents_ports::{Ids, StoreError, Transaction};

/// The state to roll back to.
#[derive(Debug, Clone)]
pub(crate) struct RestorePoint {
    /// The stored checkpoint with this state, if there is one.
    pub(crate) checkpoint: Option<CheckpointId>,
    /// Number of the last call that stays valid.
    pub(crate) call_number: i64,
    /// Number of the last checkpoint that stays valid.
    pub(crate) checkpoint_number: i64,
    pub(crate) trees: BTreeMap<SandboxId, TreeId>,
    /// Decisions to supersede together with the undone work.
    pub(crate) superseded: Vec<DecisionId>,
}

/// Changes of a rollback to the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoSummary {
    /// The checkpoint of the state before the rollback.
    pub set_aside: Checkpoint,
    /// The checkpoint whose state was restored; `None` if that state has none, such as the initial
    /// one.
    #[serde(default)]
    pub restored: Option<CheckpointId>,
    pub changes: u64,
    pub calls: u64,
    pub checkpoints: u64,
}

impl RestorePoint {
    /// The state saved in a checkpoint.
    pub(crate) fn from_checkpoint(checkpoint: &Checkpoint) -> Self {
        // Number 0 is the initial state, which is not stored.
        let is_stored = checkpoint.number > 0;
        Self {
            checkpoint: is_stored.then_some(checkpoint.id),
            call_number: checkpoint.call_number,
            checkpoint_number: checkpoint.number,
            trees: checkpoint.trees.clone(),
            superseded: Vec::new(),
        }
    }

    /// The state of the plan's sandboxes before `time`, or their initial state if there is no
    /// earlier checkpoint.
    pub(crate) fn before(
        tx: &mut dyn Transaction,
        plan: PlanId,
        time: Timestamp,
    ) -> std::result::Result<Self, StoreError> {
        let kept = tx.checkpoints_of(plan)?;
        // A checkpoint made by a rollback holds undone work, not the state at that time.
        let is_active = |it: &&Checkpoint| {
            it.undone_by.is_none()
                && it.trigger != CheckpointTrigger::Rollback
                && it.created_at < time
        };
        match kept.iter().rfind(is_active) {
            Some(checkpoint) => Ok(Self::from_checkpoint(checkpoint)),
            None => Self::initial(tx, plan),
        }
    }

    /// The state of the plan's sandboxes before the calls in `given_up`, given as sandbox and tree of
    /// each. `last` is the number of the last call that stays valid.
    pub(crate) fn before_calls(
        tx: &mut dyn Transaction,
        plan: PlanId,
        last: i64,
        given_up: &[(SandboxId, TreeId)],
    ) -> std::result::Result<Self, StoreError> {
        let sandboxes = tx.sandboxes_of(plan)?.into_iter();
        let mut trees: BTreeMap<SandboxId, TreeId> =
            sandboxes.filter_map(|it| Some((it.id, it.tree?))).collect();
        // In reverse order, so that the first call of each sandbox wins.
        for (sandbox, tree) in given_up.iter().rev() {
            trees.insert(*sandbox, tree.clone());
        }
        let kept = tx.checkpoints_of(plan)?;
        let before = kept.iter().filter(|it| it.call_number <= last);
        Ok(Self {
            checkpoint: None,
            call_number: last,
            checkpoint_number: before.map(|it| it.number).max().unwrap_or(0),
            trees,
            superseded: Vec::new(),
        })
    }

    /// The state of the plan's sandboxes when they were created.
    pub(crate) fn initial(
        tx: &mut dyn Transaction,
        plan: PlanId,
    ) -> std::result::Result<Self, StoreError> {
        let sandboxes = tx.sandboxes_of(plan)?.into_iter();
        Ok(Self {
            checkpoint: None,
            call_number: 0,
            checkpoint_number: 0,
            trees: sandboxes
                .filter_map(|it| Some((it.id, it.base_tree?)))
                .collect(),
            superseded: Vec::new(),
        })
    }
}

/// Marks everything after `restore_point` as undone and sets the tree of each sandbox. Does nothing
/// for a plan without sandboxes. The caller must append the event.
pub(crate) fn undo_after(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    restore_point: &RestorePoint,
    actor: &str,
) -> std::result::Result<Option<(UndoSummary, NewEvent)>, StoreError> {
    let id = plan.identity.plan_id;
    let sandboxes = tx.sandboxes_of(id)?;
    if sandboxes.is_empty() {
        return Ok(None);
    }
    let now = tx.now()?;
    let trees = sandboxes.iter();
    let trees = trees.filter_map(|it| Some((it.id, it.tree.clone()?)));
    let mut set_aside = Checkpoint {
        id: CheckpointId::new(ids.next()),
        plan_id: id,
        number: 0,
        trigger: CheckpointTrigger::Rollback,
        phase: plan.position.phase(),
        attempt: plan.attempt,
        step: plan.last_completed_step,
        call_number: i64::try_from(tx.count_tool_calls(id, None)?).unwrap_or(i64::MAX),
        decision_id: plan.decision_root_id,
        label: "before rollback".to_owned(),
        trees: trees.collect(),
        superseded: restore_point.superseded.clone(),
        created_at: now,
        undone_by: None,
    };
    let by = set_aside.id;
    let checkpoints = tx.undo_checkpoints(id, restore_point.checkpoint_number, by)?;
    set_aside.number = tx.insert_checkpoint(&set_aside, u32::MAX)?;
    let back = UndoSummary {
        changes: tx.undo_changes(id, restore_point.call_number, by)?,
        calls: {
            tx.undo_model_calls(id, restore_point.call_number, by)?;
            tx.undo_tool_calls(id, restore_point.call_number, by)?
        },
        checkpoints,
        set_aside,
        restored: restore_point.checkpoint,
    };
    store_trees(tx, sandboxes, restore_point, now)?;
    let payload = CheckpointRestored {
        set_aside: back.set_aside.id,
        call_number: restore_point.call_number,
        changes_undone: back.changes,
        calls_undone: back.calls,
        checkpoints_undone: back.checkpoints,
        trees: restore_point.trees.clone(),
    };
    let restored = new_event(actor, &payload)?;
    Ok(Some((back, restored)))
}

/// Sets the tree of each sandbox in its record.
fn store_trees(
    tx: &mut dyn Transaction,
    sandboxes: Vec<SandboxRecord>,
    restore_point: &RestorePoint,
    now: Timestamp,
) -> std::result::Result<(), StoreError> {
    for sandbox in sandboxes {
        let tree = restore_point
            .trees
            .get(&sandbox.id)
            .or(sandbox.base_tree.as_ref());
        let state = match sandbox.state {
            SandboxState::Captured => SandboxState::Active,
            other => other,
        };
        let moved = SandboxRecord {
            tree: tree.cloned(),
            state,
            updated_at: now,
            ..sandbox
        };
        tx.update_sandbox(&moved)?;
    }
    Ok(())
}
