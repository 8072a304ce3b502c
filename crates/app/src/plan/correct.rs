//! `plan.correct`

use std::collections::{BTreeSet, HashMap};

use cleveragents_api::Reply;
use cleveragents_api::plan::correct::{
    AffectedSubtree, AppendDetail, AppendedGuidance, CompletedCorrection, CorrectedDecision,
    CorrectedPlan, CorrectionPreview, PastCorrection, PreviewedCorrection, QueuedDecision,
    QueuedPhase, RevertedDecision, SandboxRollback, SandboxRollbackStatus,
};
use cleveragents_api::plan::{PlanCorrect, PlanSummary};
use cleveragents_domain::id::{CheckpointId, DecisionId, PlanId};
use cleveragents_domain::{Correction, CorrectionMode, Decision, FileOperation, ResourcePath};
use cleveragents_engine::decisions::{
    self, CorrectionOutcome, CorrectionRequest, DecisionService, SupersededVisibility,
};
use cleveragents_ports::{StoreError, Transaction};

use super::explain::correction_impact;
use super::work::for_each_change;
use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::failure::RequestError;
use crate::next_steps::{execute_step, tree_step};
use crate::plan::abandon::abandon_apply;
use crate::recover_applies::unfinished_apply_warnings;
use crate::services::Services;

impl Handler<PlanCorrect> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanCorrect,
        caller: &Caller,
    ) -> Result<Reply<CorrectedPlan>, RequestError> {
        check_guidance(&request.guidance)?;
        let guidance = self.services.mask_secrets(&request.guidance)?;
        let service = self.services.decisions();
        if request.dry_run {
            // Nothing is recovered either.
            let unfinished = unfinished_apply_warnings(&self.services).await?;
            self.services.notices.add(unfinished);
            let preview = preview_correction(&self.services, &request).await?;
            let reply = Reply::new(CorrectedPlan::Preview(preview));
            return Ok(reply.info("Dry run: nothing was changed"));
        }
        let decision = service.find(request.decision.0).await?;
        // Fails before the apply is aborted in vain.
        service.impact(decision.decision_id, request.mode).await?;
        abandon_apply(&self.services, decision.plan_id, caller).await?;
        let outcome = service.correct(CorrectionRequest {
            decision: decision.decision_id,
            mode: request.mode,
            guidance,
            actor: caller.who.clone(),
        });
        let outcome = outcome.await?;
        let history = service.corrections(decision.plan_id).await?;
        let undone = undone_files(&self.services, &outcome).await?;
        Ok(reply(&outcome, &history, undone))
    }
}

/// Fails if the guidance of a correction is empty or too long.
pub fn check_guidance(guidance: &str) -> Result<(), RequestError> {
    Ok(DecisionService::check_guidance(guidance)?)
}

/// Returns what the correction would do now, and fails where it would.
pub(crate) async fn preview_correction(
    services: &Services,
    request: &PlanCorrect,
) -> Result<PreviewedCorrection, RequestError> {
    let service = services.decisions();
    let decision = service.find(request.decision.0.clone()).await?;
    let preview = service.impact(decision.decision_id, request.mode).await?;
    let superseded = superseded_decisions(services, &preview).await?;
    Ok(PreviewedCorrection {
        dry_run: true,
        plan_id: preview.plan.identity.plan_id,
        plan: PlanSummary::from(&preview.plan),
        decision: corrected_decision(&preview.decision),
        correction: CorrectionPreview {
            mode: preview.mode,
            impact: correction_impact(preview.impact.level()),
            new_decision: None,
            corrects: preview.decision.decision_id,
            attempt: preview.plan.attempt + 1,
        },
        would_revert: superseded.iter().map(corrected_decision).collect(),
        affected_subtree: affected_subtree(&preview, files_before_correction(&preview)),
        goes_back_to: preview.to,
    })
}

/// Returns the decisions that would be superseded, nearest first.
async fn superseded_decisions(
    services: &Services,
    preview: &decisions::CorrectionPreview,
) -> Result<Vec<Decision>, RequestError> {
    let plan = preview.plan.identity.plan_id;
    let service = services.decisions();
    let tree = service.tree(plan, SupersededVisibility::Shown).await?;
    let by_id: HashMap<DecisionId, Decision> = tree
        .nodes
        .into_iter()
        .map(|node| (node.decision.decision_id, node.decision))
        .collect();
    let found = preview.superseded.iter().filter_map(|id| by_id.get(id));
    Ok(found.cloned().collect())
}

/// Counts the files whose changes the correction undid.
async fn undone_files(
    services: &Services,
    outcome: &CorrectionOutcome,
) -> Result<usize, StoreError> {
    let Some(undone) = &outcome.set_back else {
        return Ok(0);
    };
    let (plan, by) = (outcome.plan.identity.plan_id, undone.set_aside.id);
    services
        .store()
        .read(move |tx| count_undone_files(tx, plan, by))
        .await
}

fn count_undone_files(
    tx: &mut dyn Transaction,
    plan: PlanId,
    by: CheckpointId,
) -> Result<usize, StoreError> {
    let mut files: BTreeSet<ResourcePath> = BTreeSet::new();
    for_each_change(tx, plan, |_, change| {
        if change.undone_by == Some(by) {
            files.insert(change.entry.path);
            if let FileOperation::Rename { from } = change.entry.operation {
                files.insert(from);
            }
        }
    })?;
    Ok(files.len())
}

/// Returns the number of files that a correction would undo, where it is known before.
fn files_before_correction(preview: &decisions::CorrectionPreview) -> Option<usize> {
    (!preview.undoes_files()).then_some(0)
}

fn reply(
    outcome: &CorrectionOutcome,
    history: &[Correction],
    undone_files: usize,
) -> Reply<CorrectedPlan> {
    let reply = match outcome.correction.mode {
        CorrectionMode::Revert => {
            let answer = reverted(outcome, history, undone_files);
            Reply::new(CorrectedPlan::Reverted(answer)).info("Correction applied")
        }
        CorrectionMode::Append => {
            let answer = appended(outcome, history);
            Reply::new(CorrectedPlan::Appended(answer)).info("Append correction queued")
        }
    };
    let plan = outcome.plan.identity.plan_id;
    reply.hint(tree_step(plan)).hint(execute_step(plan))
}

fn reverted(
    outcome: &CorrectionOutcome,
    history: &[Correction],
    undone_files: usize,
) -> RevertedDecision {
    let (plan, preview) = (&outcome.plan, &outcome.preview);
    let undone = outcome.set_back.as_ref();
    RevertedDecision {
        plan_id: plan.identity.plan_id,
        plan: PlanSummary::from(plan),
        decision: corrected_decision(&preview.decision),
        correction: completed_correction(outcome),
        affected_subtree: affected_subtree(preview, Some(undone_files)),
        sandbox_rollback: SandboxRollback {
            status: match undone {
                Some(_) => SandboxRollbackStatus::RolledBack,
                None => SandboxRollbackStatus::None,
            },
            checkpoint: undone.and_then(|it| it.restored),
            files_reverted: undone_files,
        },
        recompute: QueuedPhase {
            queued: plan.position.phase(),
            eta: None,
        },
        history: past_corrections(history),
    }
}

fn appended(outcome: &CorrectionOutcome, history: &[Correction]) -> AppendedGuidance {
    let (plan, preview) = (&outcome.plan, &outcome.preview);
    AppendedGuidance {
        plan_id: plan.identity.plan_id,
        plan: PlanSummary::from(plan),
        decision: corrected_decision(&preview.decision),
        correction: completed_correction(outcome),
        append_detail: AppendDetail {
            original_decision_preserved: preview.superseded.is_empty(),
            existing_artifacts_kept: if preview.undoes_files() {
                0
            } else {
                preview.impact.artifacts.len()
            },
            additional_work: outcome.correction.guidance.clone(),
            note: format!(
                "No decision was superseded; the plan returns to {}.",
                plan.position.phase()
            ),
        },
        queued: QueuedDecision {
            new_child: outcome.decision.decision_id,
            eta: None,
        },
        history: past_corrections(history),
    }
}

fn corrected_decision(decision: &Decision) -> CorrectedDecision {
    CorrectedDecision {
        id: decision.decision_id,
        decision_type: decision.decision_type,
        chosen: decision.chosen_option.clone(),
    }
}

fn completed_correction(outcome: &CorrectionOutcome) -> CompletedCorrection {
    let correction = &outcome.correction;
    CompletedCorrection {
        id: correction.id,
        mode: correction.mode,
        impact: correction_impact(outcome.preview.impact.level()),
        new_decision: outcome.decision.decision_id,
        corrects: correction.original_decision_id,
        attempt: outcome.plan.attempt,
        state: correction.state,
    }
}

fn affected_subtree(
    preview: &decisions::CorrectionPreview,
    artifacts_archived: Option<usize>,
) -> AffectedSubtree {
    AffectedSubtree {
        decisions_invalidated: preview.superseded.len(),
        child_plans_rolled_back: 0,
        artifacts_archived,
        unaffected_decisions: preview.unaffected,
    }
}

/// Returns the corrections of the plan, newest first.
fn past_corrections(history: &[Correction]) -> Vec<PastCorrection> {
    let past = |it: &Correction| PastCorrection {
        id: it.id,
        decision: it.original_decision_id,
        mode: it.mode,
        guidance: it.guidance.clone(),
        state: it.state,
        created: it.created_at,
    };
    history.iter().rev().map(past).collect()
}
