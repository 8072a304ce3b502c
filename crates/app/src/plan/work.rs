//! The recorded work of a plan.

use std::collections::BTreeSet;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::model_call::ModelSpend;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{Decision, DecisionType, PlanState, ResourcePath};
use cleveragents_ports::{StoreError, Transaction};
use serde_json::Value;

use crate::app::App;

/// How many changes are read at once.
const PAGE: u32 = 1000;

/// The recorded work of a plan.
#[derive(Debug)]
pub struct PlanWork {
    pub strategy: Option<StrategyRecord>,
    pub sandboxes: Vec<SandboxRecord>,
    pub decisions: usize,
    pub invariants: usize,
    pub tool_calls: u64,
    /// Changes that were not undone.
    pub changes: u64,
    /// Distinct paths of the changes that were not undone.
    pub paths: usize,
    /// Checkpoints that a rollback can restore.
    pub checkpoints: usize,
    /// The newest checkpoint, not counting those that a rollback took of the state it replaced.
    pub last_checkpoint: Option<CheckpointId>,
    /// The summary of the newest validation run.
    pub validation: Option<Value>,
    /// What was spent on models.
    pub spend: ModelSpend,
    pub child_plans: ChildPlanCounts,
}

/// Counts over the child plans that still exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildPlanCounts {
    pub total: usize,
    pub complete: usize,
}

impl App {
    /// Reads the recorded work of a plan.
    pub async fn plan_work(&self, plan: PlanId) -> Result<PlanWork, StoreError> {
        self.store().read(move |tx| read_work(tx, plan)).await
    }
}

fn read_work(tx: &mut dyn Transaction, plan: PlanId) -> Result<PlanWork, StoreError> {
    let attempt = tx.plan(plan)?.attempt;
    let decisions = tx.decisions_of(plan)?;
    let standing: Vec<&Decision> = decisions.iter().filter(|it| !it.is_superseded).collect();
    let is_rule = |it: &&&Decision| it.decision_type == DecisionType::InvariantEnforced;
    let invariants = standing.iter().filter(is_rule).count();
    let kept = tx.checkpoints_of(plan)?;
    let kept: Vec<_> = kept.iter().filter(|it| it.undone_by.is_none()).collect();
    // A rollback checkpoints the state that it replaces; that state is not part of the plan's
    // history.
    let on_the_way = |it: &&&Checkpoint| it.trigger != CheckpointTrigger::Rollback;
    let last_checkpoint = kept.iter().rfind(on_the_way).map(|it| it.id);
    let mut changes = 0;
    let mut paths: BTreeSet<ResourcePath> = BTreeSet::new();
    for changeset in tx.changesets_of(plan)? {
        let mut after = 0;
        loop {
            let page = tx.changes_after(changeset.id, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.entry.sequence;
            for change in page.into_iter().filter(|it| it.undone_by.is_none()) {
                changes += 1;
                paths.insert(change.entry.path);
            }
        }
    }
    let child_plans = count_child_plans(tx, &standing)?;
    Ok(PlanWork {
        strategy: tx.newest_strategy(plan)?,
        sandboxes: tx.sandboxes_of(plan)?,
        decisions: standing.len(),
        invariants,
        tool_calls: tx.count_tool_calls(plan, None)?,
        changes,
        paths: paths.len(),
        checkpoints: kept.len(),
        last_checkpoint,
        validation: tx.newest_validation_run(plan, attempt)?,
        spend: tx.model_spend(plan)?,
        child_plans,
    })
}

/// Counts the plans that the decisions created; deleted ones are left out.
fn count_child_plans(
    tx: &mut dyn Transaction,
    decisions: &[&Decision],
) -> Result<ChildPlanCounts, StoreError> {
    let ids = decisions.iter().flat_map(|it| &it.downstream_plan_ids);
    let ids: BTreeSet<PlanId> = ids.copied().collect();
    let mut counts = ChildPlanCounts::default();
    for id in ids {
        match tx.plan(id) {
            Ok(child) => {
                let state = child.position.state();
                counts.total += 1;
                if matches!(state, PlanState::Complete | PlanState::Applied) {
                    counts.complete += 1;
                }
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(counts)
}
