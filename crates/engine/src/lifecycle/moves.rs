//! Moves a plan: lock and read it, check the transition table, write it with its event.

use std::collections::BTreeMap;

use cleveragents_domain::event::payloads::{
    DecisionCreated, DecisionSuperseded, InvariantEnforced, InvariantReconciled, PhaseChange,
    PlanApplied, PlanCancelled, PlanCorrected, PlanErrored, PlanPhaseChanged, PlanReverted,
    PlanStateChanged, PlanWaiting, StateChange,
};
use cleveragents_domain::id::{DecisionId, InvariantId, PlanId};
use cleveragents_domain::invariant::reconcile;
use cleveragents_domain::{
    Decision, DecisionType, Invariant, InvariantScope, InvariantScopeKind, Move, NewDecision,
    NewEvent, Phase, Plan, PlanInvariant, PositionOutcome, StreamId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::error::{LifecycleError, Result};
use crate::journal::new_event;
use crate::undo::{RestorePoint, undo_after};
use cleveragents_ports::{Ids, OperationOutcome, StoreError, Transaction};

/// Outcome of a requested move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PlanMoveOutcome {
    Moved(Plan),
    /// The plan already has the requested state, or can never move again.
    // Databases contain the old name.
    #[serde(rename = "Stands")]
    Unchanged(Plan),
}

impl PlanMoveOutcome {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Moved(plan) | Self::Unchanged(plan) => plan,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PlanMoveRequest {
    pub(crate) plan: PlanId,
    pub(crate) requested: Move,
    pub(crate) actor: String,
    pub(crate) reason: Option<String>,
}

/// Whether a repeated request succeeds without a change or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatPolicy {
    /// For commands, which are idempotent.
    Allow,
    /// For owners, which know the plan's position: a repeat is a bug or a lost race.
    Refuse,
}

/// Moves a plan inside a transaction.
pub(crate) fn move_plan(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &PlanMoveRequest,
    policy: RepeatPolicy,
) -> Result<PlanMoveOutcome> {
    // Locked before it is checked (law 1): the position cannot change until this transaction ends.
    let plan = tx.plan_for_update(request.plan)?;
    let illegal = |illegal| LifecycleError::Illegal {
        plan: request.plan,
        illegal,
    };
    let answer = match policy {
        RepeatPolicy::Allow => plan
            .position
            .request_move(request.requested)
            .map_err(illegal)?,
        RepeatPolicy::Refuse => {
            PositionOutcome::Moved(plan.position.after(request.requested).map_err(illegal)?)
        }
    };
    if let PositionOutcome::Unchanged(_) = answer {
        return Ok(PlanMoveOutcome::Unchanged(plan));
    }
    let now = tx.now()?;
    let mut next = plan.make_move(request.requested, now).map_err(illegal)?;
    if matches!(
        request.requested,
        Move::Fail | Move::Constrain | Move::Cancel
    ) {
        next.error_message.clone_from(&request.reason);
    }
    // Also guarded by the version column (law 1).
    next.version = tx.update_plan(&next)?;
    count_outcome(tx, &plan, request.requested)?;
    if request.requested == Move::Revert {
        abandon_strategy(tx, ids, &plan, &request.actor)?;
        record_intervention(tx, ids, &plan, request, "Why go back to strategize?")?;
    }
    // Appended in the transaction of the move (law 2). The stream is the last lock.
    let event = move_event(&plan, &next, request)?;
    tx.append(StreamId::Plan(request.plan), &[event])?;
    if enters_phase(request.requested) {
        enter_phase(tx, ids, &next, &request.actor)?;
    }
    Ok(PlanMoveOutcome::Moved(next))
}

/// Gives up the plan's strategy with the work on it: the sandboxes are at their base again, so the next
/// strategy is not made for rejected files. All records stay.
fn abandon_strategy(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    actor: &str,
) -> Result<()> {
    if plan.position.phase() == Phase::Strategize {
        return Ok(());
    }
    let id = plan.identity.plan_id;
    let initial = RestorePoint::initial(tx, id)?;
    let undone = undo_after(tx, ids, plan, &initial, actor)?;
    let mut events: Vec<NewEvent> = undone.into_iter().map(|(_, event)| event).collect();
    events.extend(supersede_strategies(tx, id, None, actor)?);
    tx.append(StreamId::Plan(id), &events)?;
    Ok(())
}

/// Supersedes the decisions about strategies and the work on them, except those of the strategy
/// `current`. Returns the event, which the caller must append.
pub(crate) fn supersede_strategies(
    tx: &mut dyn Transaction,
    plan: PlanId,
    current: Option<DecisionId>,
    actor: &str,
) -> std::result::Result<Option<NewEvent>, StoreError> {
    let decisions = tx.decisions_of(plan)?.into_iter();
    let is_former = |it: &Decision| {
        let is_current = current.is_some()
            && (Some(it.decision_id) == current || it.parent_decision_id == current);
        !it.is_superseded && it.decision_type.is_about_strategy() && !is_current
    };
    let former: Vec<DecisionId> = decisions
        .filter(is_former)
        .map(|it| it.decision_id)
        .collect();
    if former.is_empty() {
        return Ok(None);
    }
    tx.supersede(plan, &former)?;
    let record = DecisionSuperseded {
        correction: None,
        checkpoint: None,
        decisions: former,
    };
    new_event(actor, &record).map(Some)
}

/// Records a user's guidance as a decision of the plan.
pub(super) fn record_intervention(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    request: &PlanMoveRequest,
    question: &str,
) -> Result<()> {
    let decision = UserDecision {
        question,
        chosen: request.reason.as_deref().unwrap_or_default(),
        actor: &request.actor,
    };
    record_user_decision(tx, ids, plan, &decision)
}

/// A choice of the user.
#[derive(Debug)]
pub(crate) struct UserDecision<'a> {
    pub(crate) question: &'a str,
    pub(crate) chosen: &'a str,
    pub(crate) actor: &'a str,
}

/// Records a choice of the user as a decision of the plan.
pub(crate) fn record_user_decision(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    made: &UserDecision<'_>,
) -> Result<()> {
    let Some(root) = plan.decision_root_id else {
        return Ok(());
    };
    let new = NewDecision {
        plan_id: plan.identity.plan_id,
        parent: Some(root),
        decision_type: DecisionType::UserIntervention,
        phase: plan.position.phase(),
        question: made.question.to_owned(),
        chosen: made.chosen.to_owned(),
        rationale: format!("Requested by {}.", made.actor),
    };
    let mut decision = Decision::new(new, DecisionId::new(ids.next()), tx.now()?);
    decision.sequence_number = tx.insert_decision(&decision)?;
    let decided = new_event(made.actor, &DecisionCreated(decision))?;
    tx.append(StreamId::Plan(plan.identity.plan_id), &[decided])?;
    Ok(())
}

/// Counts the outcome of a phase, for the confidence in later phases. The counter row is locked
/// until the transaction ends. All transactions lock it after the plan and before the stream, so
/// two plans that end at the same time cannot deadlock.
///
/// A result that is applied although its checks failed is no success.
fn count_outcome(tx: &mut dyn Transaction, plan: &Plan, requested: Move) -> Result<()> {
    let approved = plan.approvals.apply.as_ref();
    let is_forced = approved.is_some_and(|it| it.forced.is_some());
    let outcome = match requested {
        Move::Complete | Move::Apply if is_forced => return Ok(()),
        Move::Complete | Move::Apply => OperationOutcome::Success,
        Move::Fail => OperationOutcome::Failure,
        _ => return Ok(()),
    };
    tx.count_outcome(phase_operation(plan.position.phase()), outcome)?;
    Ok(())
}

/// Returns the name under which outcomes of a phase are counted.
pub const fn phase_operation(phase: Phase) -> &'static str {
    match phase {
        Phase::Strategize => "phase.strategize",
        Phase::Execute => "phase.execute",
        Phase::Apply => "phase.apply",
    }
}

const fn enters_phase(requested: Move) -> bool {
    matches!(
        requested,
        Move::Advance(_) | Move::Revert | Move::Correct(_)
    )
}

fn move_event(before: &Plan, after: &Plan, request: &PlanMoveRequest) -> Result<NewEvent> {
    let (from, to) = (before.position, after.position);
    let actor = &request.actor;
    let phase = || PhaseChange {
        from: from.phase(),
        from_state: from.state(),
        to: to.phase(),
        reversions: to.reversions(),
        reason: request.reason.clone(),
    };
    let state = || StateChange {
        phase: to.phase(),
        from: from.state(),
        to: to.state(),
        by: request.requested.kind(),
        waiting: to.waiting(),
        point_of_no_return: to.point_of_no_return(),
        reason: request.reason.clone(),
    };
    Ok(match request.requested {
        Move::Advance(_) => new_event(actor, &PlanPhaseChanged(phase()))?,
        Move::Revert => new_event(actor, &PlanReverted(phase()))?,
        Move::Correct(_) => new_event(actor, &PlanCorrected(phase()))?,
        Move::Apply => new_event(actor, &PlanApplied(state()))?,
        Move::Cancel => new_event(actor, &PlanCancelled(state()))?,
        Move::Fail => new_event(actor, &PlanErrored(state()))?,
        Move::Wait(_) => new_event(actor, &PlanWaiting(state()))?,
        _ => new_event(actor, &PlanStateChanged(state()))?,
    })
}

/// Reconciles the invariants when a phase starts, and records it: new rules become decisions, rules
/// that no longer apply are superseded, the others keep their decisions.
pub(crate) fn enter_phase(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    actor: &str,
) -> Result<()> {
    let id = plan.identity.plan_id;
    // Read in this transaction, so that a rule added at the same moment counts in this phase or the
    // next.
    let effective = effective_invariants(tx, ids, plan)?;
    let now = tx.now()?;
    let mut active = active_rules(tx, id)?;
    let decide =
        |invariant| enforcement_decision(plan, invariant, DecisionId::new(ids.next()), now);
    let mut decisions: Vec<Decision> = effective.iter().map(decide).collect();
    // Rules that stay keep their decisions, which other decisions may depend on.
    decisions.retain(|decision| active.remove(&rule_key(decision)).is_none());
    let withdrawn: Vec<DecisionId> = active.into_values().collect();
    tx.supersede(id, &withdrawn)?;
    let places = tx.insert_decisions(id, &decisions)?;
    let mut events = Vec::with_capacity(decisions.len() + 2);
    if !withdrawn.is_empty() {
        let record = DecisionSuperseded {
            correction: None,
            checkpoint: None,
            decisions: withdrawn.clone(),
        };
        events.push(new_event(actor, &record)?);
    }
    let added = decisions.len() as u64;
    // The store assigns the numbers (law 11); the events contain them.
    for (mut decision, place) in decisions.into_iter().zip(places) {
        decision.sequence_number = place;
        events.push(new_event(actor, &InvariantEnforced(decision))?);
    }
    let summary = InvariantReconciled {
        phase: plan.position.phase(),
        effective: effective.len() as u64,
        added,
        withdrawn: withdrawn.len() as u64,
    };
    events.push(new_event(actor, &summary)?);
    tx.append(StreamId::Plan(id), &events)?;
    Ok(())
}

/// Returns the scope and the rule of a decision about a rule.
fn rule_key(decision: &Decision) -> (String, String) {
    (decision.question.clone(), decision.chosen_option.clone())
}

/// Returns the active decisions about rules, by scope and rule.
fn active_rules(
    tx: &mut dyn Transaction,
    plan: PlanId,
) -> Result<BTreeMap<(String, String), DecisionId>> {
    let decided = tx.decisions_of(plan)?.into_iter();
    let active = decided
        .filter(|it| it.decision_type == DecisionType::InvariantEnforced && !it.is_superseded);
    Ok(active.map(|it| (rule_key(&it), it.decision_id)).collect())
}

/// Returns the rules that apply to the plan now, strongest first.
pub(crate) fn effective_invariants(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
) -> Result<Vec<Invariant>> {
    let brief = &plan.brief;
    let id = Some(plan.identity.plan_id);
    let stored = tx.invariants_for(&brief.projects, Some(&brief.action_name), id)?;
    let frozen = frozen_invariants(plan, ids);
    let effective = reconcile(stored.iter().chain(&frozen));
    Ok(effective.into_iter().cloned().collect())
}

/// Returns the rules frozen into the plan when it was created: its action's and its own.
pub(crate) fn frozen_invariants(plan: &Plan, ids: &dyn Ids) -> Vec<Invariant> {
    let rule = |frozen: &PlanInvariant| Invariant {
        id: InvariantId::new(ids.next()),
        text: frozen.text.clone(),
        scope: match frozen.source {
            InvariantScopeKind::Action => InvariantScope::Action(plan.brief.action_name.clone()),
            _ => InvariantScope::Plan(plan.identity.plan_id),
        },
        // A frozen rule is stored without this flag.
        non_overridable: false,
        created_at: plan.timestamps.created_at,
    };
    plan.brief.invariants.iter().map(rule).collect()
}

fn enforcement_decision(
    plan: &Plan,
    invariant: &Invariant,
    id: DecisionId,
    now: Timestamp,
) -> Decision {
    let new = NewDecision {
        plan_id: plan.identity.plan_id,
        parent: plan.decision_root_id,
        decision_type: DecisionType::InvariantEnforced,
        phase: plan.position.phase(),
        question: format!("Which rule applies ({})?", invariant.scope.kind()),
        chosen: invariant.text.clone(),
        rationale: "It applies to this plan and no stronger rule overrides it.".to_owned(),
    };
    Decision::new(new, id, now)
}
