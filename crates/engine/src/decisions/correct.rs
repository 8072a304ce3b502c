//! Correcting a decision: what followed from it is given up or kept, the guidance becomes a
//! decision, and the plan is worked on again. All of it is one commit.
//!
//! A correction takes all its steps at once, because there is nothing to wait for: that files are
//! given up is recorded here, and the sandboxes are set back when they are opened next.

use std::sync::Arc;

use cleveragents_domain::id::{CorrectionId, DecisionId};
use cleveragents_domain::{
    Correction, CorrectionMode, CorrectionState, Decision, DecisionType, EventKind, Move,
    NewDecision, NewEvent, Phase, Plan, StreamId, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::DecisionService;
use super::error::{DecisionFailure, Result};
use super::impact::{Preview, preview};
use crate::execution::SetBack;
use crate::execution::rollback::{Earlier, set_back};
use crate::lifecycle::{Repeats, Request, event, evict, hold_unowned, move_plan};
use crate::ports::{Ids, StoreError, Unit};

/// The longest guidance, in bytes.
pub const GUIDANCE_MAXIMUM: usize = 64 * 1024;

/// A correction as it is asked for.
#[derive(Debug, Clone)]
pub struct CorrectRequest {
    pub decision: DecisionId,
    pub mode: CorrectionMode,
    /// What should be decided instead, or added.
    pub guidance: String,
    /// Who asks.
    pub actor: String,
}

/// What a correction did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Corrected {
    pub correction: Correction,
    /// The guidance as a decision.
    pub decision: Decision,
    /// The plan as it is now.
    pub plan: Plan,
    /// What was found and is done; its plan is the one before.
    pub preview: Preview,
    /// What became of the files, if there were any to set back.
    #[serde(default)]
    pub set_back: Option<SetBack>,
}

impl DecisionService {
    /// Refuses guidance that says nothing or too much.
    pub fn check_guidance(guidance: &str) -> Result<()> {
        match guidance.len() {
            _ if guidance.trim().is_empty() => Err(DecisionFailure::NoGuidance),
            length if length > GUIDANCE_MAXIMUM => Err(DecisionFailure::GuidanceTooLong { length }),
            _ => Ok(()),
        }
    }

    /// Changes a decision, or adds to it, on a human's word. Refused while somebody runs the plan,
    /// when it is finished, and for a decision that was superseded before.
    pub async fn correct(&self, request: CorrectRequest) -> Result<Corrected> {
        Self::check_guidance(&request.guidance)?;
        let plan = self.plan_of(request.decision).await?;
        let known = self.lifecycle.known_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("decision.correct"), move |unit| {
                let run = hold_unowned(unit, plan, known)?;
                let held = unit.plan_for_update(plan)?;
                let preview = preview(unit, held, request.decision, request.mode)?;
                let corrected = apply(unit, &*ids, &request, preview)?;
                evict(unit, run.as_ref(), &request.actor)?;
                Ok(corrected)
            })
            .await
    }
}

fn apply(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    request: &CorrectRequest,
    preview: Preview,
) -> Result<Corrected> {
    let plan = preview.plan.identity.plan_id;
    let now = unit.now()?;
    let mut correction = requested(request, &preview, CorrectionId::new(ids.next()), now);
    unit.insert_correction(&correction)?;
    let mut events = vec![told(EventKind::CorrectionRequested, request, &correction)?];
    step(unit, &mut correction, CorrectionState::Executing, now)?;
    if !preview.superseded.is_empty() {
        unit.supersede(plan, &preview.superseded)?;
        let record = json!({ "correction": correction.id, "decisions": preview.superseded });
        events.push(told(EventKind::DecisionSuperseded, request, &record)?);
    }
    let parent = parent_of(unit, &preview)?;
    let mut decision = guidance(request, &preview, parent, DecisionId::new(ids.next()), now);
    decision.sequence_number = unit.insert_decision(&decision)?;
    correction.new_decision_id = Some(decision.decision_id);
    events.push(told(EventKind::DecisionCreated, request, &decision)?);
    let record = json!({
        "correction": correction.id,
        "original": request.decision,
        "new": decision.decision_id,
        "mode": request.mode,
    });
    events.push(told(EventKind::DecisionCorrected, request, &record)?);
    unit.append(StreamId::Plan(plan), &events)?;
    let moved = send_back(unit, ids, request, &preview)?;
    let set_back = give_up_files(unit, ids, request, (&preview, &moved))?;
    step(unit, &mut correction, CorrectionState::Complete, now)?;
    let completed = told(EventKind::CorrectionCompleted, request, &correction)?;
    unit.append(StreamId::Plan(plan), &[completed])?;
    Ok(Corrected {
        correction,
        decision,
        plan: moved,
        preview,
        set_back,
    })
}

fn requested(
    request: &CorrectRequest,
    preview: &Preview,
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

fn step(
    unit: &mut dyn Unit,
    correction: &mut Correction,
    to: CorrectionState,
    now: Timestamp,
) -> Result<()> {
    *correction = correction.step(to, now).map_err(StoreError::internal)?;
    correction.version = unit.update_correction(correction)?;
    Ok(())
}

/// Where the guidance stands in the tree: below what is added to; in place of what is given up,
/// which is below the nearest ancestor that still counts.
fn parent_of(unit: &mut dyn Unit, preview: &Preview) -> Result<DecisionId> {
    let original = &preview.decision;
    if preview.mode == CorrectionMode::Append {
        return Ok(original.decision_id);
    }
    let mut parent = original.parent_decision_id;
    while let Some(id) = parent {
        let found = unit.decision(id)?;
        if !found.is_superseded {
            return Ok(id);
        }
        parent = found.parent_decision_id;
    }
    Ok(original.decision_id)
}

fn guidance(
    request: &CorrectRequest,
    preview: &Preview,
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
            CorrectionMode::Revert => "A human decided otherwise.".to_owned(),
            CorrectionMode::Append => "A human added to the decision.".to_owned(),
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

/// Moves the plan back. What was done before is done again only if it was given up.
fn send_back(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    request: &CorrectRequest,
    preview: &Preview,
) -> Result<Plan> {
    let request = Request {
        plan: preview.plan.identity.plan_id,
        asked: Move::Correct(preview.to),
        actor: request.actor.clone(),
        reason: Some(request.guidance.clone()),
    };
    let moved = move_plan(unit, ids, &request, Repeats::AreRefused)?;
    let mut plan = moved.plan().clone();
    if preview.mode == CorrectionMode::Revert && plan.last_completed_step.is_some() {
        plan.last_completed_step = None;
        plan.version = unit.update_plan(&plan)?;
    }
    Ok(plan)
}

/// With a decision of Execute the files go that were made after it. Those of a new strategy go when
/// it is there.
fn give_up_files(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    request: &CorrectRequest,
    (preview, plan): (&Preview, &Plan),
) -> Result<Option<SetBack>> {
    if preview.mode != CorrectionMode::Revert || preview.to != Phase::Execute {
        return Ok(None);
    }
    let id = plan.identity.plan_id;
    let earlier = Earlier::before(unit, id, preview.decision.created_at)?;
    let Some((back, told)) = set_back(unit, ids, plan, &earlier, &request.actor)? else {
        return Ok(None);
    };
    unit.append(StreamId::Plan(id), &[told])?;
    Ok(Some(back))
}

fn told(kind: EventKind, request: &CorrectRequest, payload: &impl Serialize) -> Result<NewEvent> {
    Ok(event(kind, &request.actor, payload)?)
}
