//! Corrects a decision: later decisions are superseded or kept, the guidance becomes a decision,
//! and the plan is worked on again. All of it is one commit.
//!
//! A correction needs no later step: it only records that files are undone, and the sandboxes are
//! restored when they are opened next.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{
    CorrectionCompleted, CorrectionRequested, DecisionCorrected, DecisionCreated,
    DecisionSuperseded,
};
use cleveragents_domain::id::{CorrectionId, DecisionId};
use cleveragents_domain::{
    Correction, CorrectionMode, CorrectionState, Decision, DecisionType, Move, NewDecision, Phase,
    Plan, StreamId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::DecisionService;
use super::error::{DecisionFailure, Result};
use super::impact::{CorrectionPreview, preview_correction};
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, evict, hold_unowned, move_plan};
use crate::undo::{RestorePoint, UndoSummary, undo_after};
use cleveragents_ports::{Ids, StoreError, Transaction};

/// Maximum length of the guidance, in bytes.
pub const GUIDANCE_MAXIMUM: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub struct CorrectionRequest {
    pub decision: DecisionId,
    pub mode: CorrectionMode,
    /// The guidance: another choice, or an addition.
    pub guidance: String,
    /// The acting user, for the journal.
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrectionOutcome {
    pub correction: Correction,
    /// The guidance as a decision.
    pub decision: Decision,
    /// The plan after the correction.
    pub plan: Plan,
    /// The effects; its plan is the one before the correction.
    pub preview: CorrectionPreview,
    /// The restored files, if any.
    #[serde(default)]
    pub set_back: Option<UndoSummary>,
}

impl DecisionService {
    /// Fails if the guidance is empty or too long.
    pub fn check_guidance(guidance: &str) -> Result<()> {
        match guidance.len() {
            _ if guidance.trim().is_empty() => Err(DecisionFailure::NoGuidance),
            length if length > GUIDANCE_MAXIMUM => Err(DecisionFailure::GuidanceTooLong { length }),
            _ => Ok(()),
        }
    }

    /// Changes a decision, or adds to it, at the user's request. Fails while the plan has a live
    /// owner, if it is finished, and if the decision is already superseded.
    pub async fn correct(&self, request: CorrectionRequest) -> Result<CorrectionOutcome> {
        Self::check_guidance(&request.guidance)?;
        let plan = self.plan_of(request.decision).await?;
        let known = self.lifecycle.proven_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("decision.correct"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                let position = held.position;
                let preview = preview_correction(tx, held, request.decision, request.mode)?;
                preview.check_move(position)?;
                let corrected = apply_correction(tx, &*ids, &request, preview)?;
                evict(tx, run.as_ref(), &request.actor)?;
                Ok(corrected)
            })
            .await
    }
}

fn apply_correction(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &CorrectionRequest,
    preview: CorrectionPreview,
) -> Result<CorrectionOutcome> {
    let plan = preview.plan.identity.plan_id;
    let now = tx.now()?;
    let mut correction = new_correction(request, &preview, CorrectionId::new(ids.next()), now);
    tx.insert_correction(&correction)?;
    let requested = CorrectionRequested(correction.clone());
    let mut events = vec![new_event(&request.actor, &requested)?];
    advance_correction(tx, &mut correction, CorrectionState::Executing, now)?;
    if !preview.superseded.is_empty() {
        tx.supersede(plan, &preview.superseded)?;
        let record = DecisionSuperseded {
            correction: Some(correction.id),
            checkpoint: None,
            decisions: preview.superseded.clone(),
        };
        events.push(new_event(&request.actor, &record)?);
    }
    let parent = parent_of(tx, &preview)?;
    let mut decision =
        guidance_decision(request, &preview, parent, DecisionId::new(ids.next()), now);
    decision.sequence_number = tx.insert_decision(&decision)?;
    correction.new_decision_id = Some(decision.decision_id);
    let created = DecisionCreated(decision.clone());
    events.push(new_event(&request.actor, &created)?);
    let record = DecisionCorrected {
        correction: correction.id,
        original: request.decision,
        new: decision.decision_id,
        mode: request.mode,
    };
    events.push(new_event(&request.actor, &record)?);
    tx.append(StreamId::Plan(plan), &events)?;
    let moved = return_to_phase(tx, ids, request, &preview)?;
    let set_back = restore_files(tx, ids, request, &preview, &moved)?;
    advance_correction(tx, &mut correction, CorrectionState::Complete, now)?;
    let completed = CorrectionCompleted(correction.clone());
    tx.append(
        StreamId::Plan(plan),
        &[new_event(&request.actor, &completed)?],
    )?;
    Ok(CorrectionOutcome {
        correction,
        decision,
        plan: moved,
        preview,
        set_back,
    })
}

fn new_correction(
    request: &CorrectionRequest,
    preview: &CorrectionPreview,
    id: CorrectionId,
    now: Timestamp,
) -> Correction {
    let affected = match request.mode {
        CorrectionMode::Append => vec![request.decision],
        CorrectionMode::Revert => {
            let head = [request.decision].into_iter();
            head.chain(preview.impact.downstream.iter().copied())
                .collect()
        }
    };
    Correction {
        id,
        plan_id: preview.plan.identity.plan_id,
        original_decision_id: request.decision,
        new_decision_id: None,
        mode: request.mode,
        guidance: request.guidance.clone(),
        affected,
        state: CorrectionState::Pending,
        created_at: now,
        completed_at: None,
        version: 1,
    }
}

fn advance_correction(
    tx: &mut dyn Transaction,
    correction: &mut Correction,
    to: CorrectionState,
    now: Timestamp,
) -> Result<()> {
    *correction = correction
        .transition(to, now)
        .map_err(StoreError::internal)?;
    correction.version = tx.update_correction(correction)?;
    Ok(())
}

/// Returns the parent of the guidance. An addition goes below its decision. A replacement goes
/// below the nearest ancestor of its decision that is not superseded.
fn parent_of(tx: &mut dyn Transaction, preview: &CorrectionPreview) -> Result<DecisionId> {
    let original = &preview.decision;
    if preview.mode == CorrectionMode::Append {
        return Ok(original.decision_id);
    }
    let mut parent = original.parent_decision_id;
    while let Some(id) = parent {
        let found = tx.decision(id)?;
        if !found.is_superseded {
            return Ok(id);
        }
        parent = found.parent_decision_id;
    }
    Ok(original.decision_id)
}

fn guidance_decision(
    request: &CorrectionRequest,
    preview: &CorrectionPreview,
    parent: DecisionId,
    id: DecisionId,
    now: Timestamp,
) -> Decision {
    let original = &preview.decision;
    let new = NewDecision {
        plan_id: original.plan_id,
        parent: Some(parent),
        decision_type: DecisionType::UserIntervention,
        phase: preview.to,
        question: original.question.clone(),
        chosen: request.guidance.clone(),
        rationale: match request.mode {
            CorrectionMode::Revert => "The user changed the decision.".to_owned(),
            CorrectionMode::Append => "The user added to the decision.".to_owned(),
        },
    };
    Decision {
        is_correction: true,
        alternatives_considered: match request.mode {
            CorrectionMode::Revert => vec![original.chosen_option.clone()],
            CorrectionMode::Append => Vec::new(),
        },
        ..Decision::new(new, id, now)
    }
}

/// Moves the plan back. Completed steps are repeated only if they were undone.
fn return_to_phase(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &CorrectionRequest,
    preview: &CorrectionPreview,
) -> Result<Plan> {
    let request = PlanMoveRequest {
        plan: preview.plan.identity.plan_id,
        requested: Move::Correct(preview.to),
        actor: request.actor.clone(),
        reason: Some(request.guidance.clone()),
    };
    let moved = move_plan(tx, ids, &request, RepeatPolicy::Refuse)?;
    let mut plan = moved.plan().clone();
    if preview.mode == CorrectionMode::Revert && plan.last_completed_step.is_some() {
        plan.last_completed_step = None;
        plan.version = tx.update_plan(&plan)?;
    }
    Ok(plan)
}

/// For a decision of Execute, undoes the file changes made after it. For a new strategy, undoes all of
/// them, so that it is made for the base.
fn restore_files(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &CorrectionRequest,
    preview: &CorrectionPreview,
    plan: &Plan,
) -> Result<Option<UndoSummary>> {
    if !preview.undoes_files() {
        return Ok(None);
    }
    let id = plan.identity.plan_id;
    let earlier = match preview.to {
        Phase::Strategize => RestorePoint::initial(tx, id)?,
        Phase::Execute | Phase::Apply => RestorePoint::before(tx, id, preview.decision.created_at)?,
    };
    let Some((back, event)) = undo_after(tx, ids, plan, &earlier, &request.actor)? else {
        return Ok(None);
    };
    tx.append(StreamId::Plan(id), &[event])?;
    Ok(Some(back))
}
