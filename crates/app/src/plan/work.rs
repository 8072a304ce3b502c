//! The recorded work of a plan.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_api::plan::PlanCost;
use cleveragents_api::plan::cost::TokenCounts;
use cleveragents_domain::changeset::RecordedChange;
use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{CheckpointId, PlanId, SandboxId};
use cleveragents_domain::model_call::ModelTotals;
use cleveragents_domain::sandbox::{FolderState, SandboxRecord};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{
    ChangeEntry, Decision, DecisionType, FileOperation, FileState, NamespacedName, Plan, PlanState,
    ResourcePath, ValidationSummary,
};
use cleveragents_ports::{StoreError, Transaction};

use crate::services::Services;

/// Number of changes that one read returns.
const PAGE: u32 = 1000;

/// The recorded work of a plan.
#[derive(Debug)]
pub struct PlanWork {
    pub strategy: Option<StrategyRecord>,
    pub sandboxes: Vec<SandboxRecord>,
    pub decisions: usize,
    pub invariants: usize,
    pub tool_calls: u64,
    /// Changes of the paths that the result changes.
    pub changes: u64,
    /// Number of paths that the result changes. A path that a later change or a rejection brought back
    /// to its first state is not among them.
    pub paths: usize,
    /// Checkpoints that a rollback can restore.
    pub checkpoints: usize,
    /// The newest checkpoint, not counting those that a rollback took of the state it replaced.
    pub last_checkpoint: Option<CheckpointId>,
    /// The summary of the newest validation run.
    pub validation: Option<ValidationSummary>,
    /// Money and tokens spent on models.
    pub cost: PlanCost,
    pub child_plans: ChildPlanCounts,
}

/// Counts over the child plans that still exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildPlanCounts {
    pub total: usize,
    pub complete: usize,
    pub cancelled: usize,
    /// Whether the files of all their sandboxes still exist.
    pub are_sandboxes_kept: bool,
}

impl PlanWork {
    /// Returns whether the files of all sandboxes still exist.
    pub fn are_sandboxes_kept(&self) -> bool {
        self.sandboxes.iter().all(is_kept)
    }
}

fn is_kept(sandbox: &SandboxRecord) -> bool {
    sandbox.folder == FolderState::Kept
}

/// Returns what models cost.
fn plan_cost(totals: &ModelTotals) -> PlanCost {
    let ModelTotals {
        reported,
        reported_usd,
        estimated_tokens,
        estimated_usd,
        has_unpriced_usage,
        has_unpriced_estimate,
    } = *totals;
    let counted = totals.counted();
    PlanCost {
        usd: (!has_unpriced_usage).then_some(reported_usd),
        tokens: TokenCounts {
            input: reported.input_tokens,
            output: reported.output_tokens,
            cached: reported.cached_tokens,
        },
        estimated_tokens,
        estimated_usd: (!has_unpriced_estimate).then_some(estimated_usd),
        tokens_used: counted.tokens,
        cost_so_far: counted.usd.unwrap_or(0.0),
        estimated: None,
    }
}

/// Reads the recorded work of a plan.
pub(crate) async fn plan_work(services: &Services, plan: &Plan) -> Result<PlanWork, StoreError> {
    let (plan, attempt) = (plan.identity.plan_id, plan.attempt);
    let read = services
        .store()
        .read(move |tx| read_work(tx, plan, attempt));
    read.await
}

fn read_work(tx: &mut dyn Transaction, plan: PlanId, attempt: u32) -> Result<PlanWork, StoreError> {
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
    let net = net_changes(tx, plan)?;
    let child_plans = count_child_plans(tx, &standing)?;
    Ok(PlanWork {
        strategy: tx.newest_strategy(plan)?,
        sandboxes: tx.sandboxes_of(plan)?,
        decisions: standing.len(),
        invariants,
        tool_calls: tx.count_tool_calls(plan, None)?,
        changes: net.values().map(|it| it.changes).sum(),
        paths: net.len(),
        checkpoints: kept.len(),
        last_checkpoint,
        validation: tx.newest_validation_run(plan, attempt)?,
        cost: plan_cost(&tx.model_totals(plan)?),
        child_plans,
    })
}

/// All recorded changes of one path, as one.
#[derive(Debug, Clone, PartialEq)]
struct NetChange {
    before: Option<FileState>,
    after: Option<FileState>,
    /// Number of changes by actors.
    changes: u64,
}

/// Returns the paths that the plan's result changes, by sandbox and path.
fn net_changes(
    tx: &mut dyn Transaction,
    plan: PlanId,
) -> Result<BTreeMap<(SandboxId, ResourcePath), NetChange>, StoreError> {
    let mut net: BTreeMap<(SandboxId, ResourcePath), NetChange> = BTreeMap::new();
    let mut add = |key, before: &Option<FileState>, after: &Option<FileState>, changes| {
        let entry = net.entry(key).or_insert_with(|| NetChange {
            before: before.clone(),
            after: None,
            changes: 0,
        });
        entry.after.clone_from(after);
        entry.changes += changes;
    };
    let user = NamespacedName::built_in("user");
    for_each_change(tx, plan, |sandbox, change| {
        if change.undone_by.is_some() {
            return;
        }
        let ChangeEntry {
            path,
            operation,
            before,
            after,
            actor,
            ..
        } = change.entry;
        // What the user took out of the result is no change of an actor.
        let count = u64::from(actor != user);
        match operation {
            FileOperation::Rename { from } => {
                add((sandbox, from), &before, &None, 0);
                add((sandbox, path), &None, &after, count);
            }
            _ => add((sandbox, path), &before, &after, count),
        }
    })?;
    net.retain(|_, change| change.before != change.after);
    Ok(net)
}

/// Calls `visit` with the sandbox and each change of a plan, undone or not.
pub(super) fn for_each_change(
    tx: &mut dyn Transaction,
    plan: PlanId,
    mut visit: impl FnMut(SandboxId, RecordedChange),
) -> Result<(), StoreError> {
    for changeset in tx.changesets_of(plan)? {
        let mut after = 0;
        loop {
            let page = tx.changes_after(changeset.id, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.entry.sequence;
            let changes = page.into_iter();
            changes.for_each(|change| visit(changeset.sandbox_id, change));
        }
    }
    Ok(())
}

/// Counts the plans that the decisions created; deleted ones are left out.
fn count_child_plans(
    tx: &mut dyn Transaction,
    decisions: &[&Decision],
) -> Result<ChildPlanCounts, StoreError> {
    let ids = decisions.iter().flat_map(|it| &it.downstream_plan_ids);
    let ids: BTreeSet<PlanId> = ids.copied().collect();
    let mut counts = ChildPlanCounts {
        are_sandboxes_kept: true,
        ..ChildPlanCounts::default()
    };
    for id in ids {
        match tx.plan(id) {
            Ok(child) => {
                let state = child.position.state();
                counts.total += 1;
                if matches!(state, PlanState::Complete | PlanState::Applied) {
                    counts.complete += 1;
                }
                if state == PlanState::Cancelled {
                    counts.cancelled += 1;
                }
                counts.are_sandboxes_kept &= tx.sandboxes_of(id)?.iter().all(is_kept);
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(counts)
}
