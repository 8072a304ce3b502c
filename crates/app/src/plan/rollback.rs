//! `plan.rollback`

use std::collections::BTreeSet;

use cleveragents_api::plan::rollback::{
    PostRollbackState, RestoreAction, RevertedFile, RollbackImpact, RollbackSummary,
    RolledBackPlan, UndoCheckpoint,
};
use cleveragents_api::plan::{PlanCheckpoints, PlanReference, PlanRollback, PlanSummary};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_engine::execution::{CheckpointChoice, RollbackOutcome};
use cleveragents_ports::StoreError;

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::failure::RequestError;
use crate::next_steps::execute_step;
use crate::plan::abandon::abandon_apply;
use crate::plan::find::find_plan;
use crate::services::Services;

impl Handler<PlanRollback> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanRollback,
        caller: &Caller,
    ) -> Result<Reply<RolledBackPlan>, RequestError> {
        let checkpoint = parse_checkpoint(&request.checkpoint, &request.plan)?;
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        abandon_apply(&self.services, id, caller).await?;
        let executor = self.services.executor(caller)?;
        let outcome = executor.rollback(id, checkpoint, &caller.who).await?;
        let left = executor.checkpoints(id).await?;
        let children = count_children(&self.services, &outcome.record.decisions).await?;
        let undo = outcome.record.back.set_aside.number;
        Ok(Reply::new(answer(&outcome, &left, children))
            .info("Rolled back")
            .hint(NextStep::send(&PlanRollback {
                plan: id.into(),
                checkpoint: undo.to_string(),
            }))
            .hint(execute_step(id)))
    }
}

/// Counts the plans that the decisions created.
async fn count_children(
    services: &Services,
    decisions: &[DecisionId],
) -> Result<usize, StoreError> {
    let decisions = decisions.to_vec();
    let children = services.store().read(move |tx| {
        let mut children: BTreeSet<PlanId> = BTreeSet::new();
        for id in &decisions {
            children.extend(tx.decision(*id)?.downstream_plan_ids);
        }
        Ok::<_, StoreError>(children.len())
    });
    children.await
}

/// Parses a checkpoint as the user names it: numbers of up to three digits are positions, anything
/// else is an id.
pub fn parse_checkpoint(
    text: &str,
    plan: &PlanReference,
) -> Result<CheckpointChoice, RequestError> {
    let text = text.trim();
    if text.len() < 4
        && let Ok(number) = text.parse::<i64>()
    {
        return Ok(CheckpointChoice::Number(number));
    }
    let fragment = text.parse().map_err(|error| {
        RequestError::usage(format!("`{text}` names no checkpoint: {error}"))
            .hint(NextStep::send(&PlanCheckpoints { plan: plan.clone() }))
    })?;
    Ok(CheckpointChoice::Id(fragment))
}

fn answer(outcome: &RollbackOutcome, left: &[Checkpoint], children: usize) -> RolledBackPlan {
    let record = &outcome.record;
    let (plan, checkpoint, back) = (&record.plan, &record.checkpoint, &record.back);
    let files = outcome.files.iter().map(|it| RevertedFile {
        file: it.path.clone(),
        action: RestoreAction::Restored,
    });
    RolledBackPlan {
        plan: PlanSummary::from(plan),
        rollback_summary: RollbackSummary {
            plan: plan.identity.plan_id,
            checkpoint: checkpoint.id,
            number: checkpoint.number,
            label: checkpoint.label.clone(),
            files_reverted: outcome.files.len(),
        },
        changes_reverted: files.collect(),
        impact: RollbackImpact {
            child_plans_invalidated: children,
            sandbox: if outcome.files.is_empty() {
                RestoreAction::Unchanged
            } else {
                RestoreAction::Restored
            },
            changes_undone: back.changes,
            decisions_after_cp: record.decisions.len(),
            tool_calls_after_cp: back.calls,
        },
        post_rollback_state: PostRollbackState {
            phase: plan.position.phase(),
            state: plan.position.state(),
            checkpoints_remaining: left.iter().filter(|it| it.undone_by.is_none()).count(),
        },
        undo: UndoCheckpoint {
            checkpoint: back.set_aside.id,
            number: back.set_aside.number,
        },
    }
}
