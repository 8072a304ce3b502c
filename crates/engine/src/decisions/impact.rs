//! Previews the effects of a correction without making it.

use std::collections::{BTreeSet, HashMap};

use cleveragents_domain::decision::affected_by_correction;
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    CorrectionMode, Decision, DecisionEdge, Move, Phase, Plan, PointOfNoReturn, Position,
    ResourcePath,
};
use serde::{Deserialize, Serialize};

use super::DecisionService;
use super::error::{DecisionFailure, Result};
use crate::lifecycle::{LifecycleError, refuse_owned};
use cleveragents_ports::Transaction;

/// Number of decisions or artifacts from which on an impact is high.
const LARGE_IMPACT: usize = 10;

/// Records that depend on a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impact {
    /// The active decisions that followed from it, nearest first, without itself.
    pub downstream: Vec<DecisionId>,
    /// The child plans that these decisions created.
    pub child_plans: Vec<PlanId>,
    /// The files that these decisions produced.
    pub artifacts: Vec<ResourcePath>,
}

/// Cost of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImpactLevel {
    /// Nothing depends on the decision.
    Low,
    /// Something depends on it.
    Medium,
    /// A child plan, or many decisions or files, depend on it.
    High,
}

/// The effects of a correction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrectionPreview {
    pub plan: Plan,
    pub decision: Decision,
    pub mode: CorrectionMode,
    /// The phase that the plan would return to.
    pub to: Phase,
    /// The decisions that would be superseded, nearest first.
    pub superseded: Vec<DecisionId>,
    /// Number of decisions that would stay active.
    pub unaffected: usize,
    pub impact: Impact,
}

impl Impact {
    pub fn level(&self) -> ImpactLevel {
        let many = self.downstream.len() > LARGE_IMPACT || self.artifacts.len() > LARGE_IMPACT;
        if many || !self.child_plans.is_empty() {
            ImpactLevel::High
        } else if self.downstream.is_empty() && self.artifacts.is_empty() {
            ImpactLevel::Low
        } else {
            ImpactLevel::Medium
        }
    }
}

impl ImpactLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl DecisionService {
    /// Returns what [`correct`](Self::correct) would do now, and fails where it would. If an apply
    /// of the plan has stopped, the result is for the time after its abort. Writes nothing.
    pub async fn impact(
        &self,
        decision: DecisionId,
        mode: CorrectionMode,
    ) -> Result<CorrectionPreview> {
        let plan = self.plan_of(decision).await?;
        let known = self.lifecycle.proven_owner(plan).await?;
        self.store
            .read(move |tx| {
                let plan = tx.plan(plan)?;
                let run = tx.run_of(plan.identity.plan_id)?;
                refuse_owned(tx, run.as_ref(), known)?;
                let position = after_abort(plan.position);
                let preview = preview_correction(tx, plan, decision, mode)?;
                preview.check_move(position)?;
                Ok(preview)
            })
            .await
    }

    pub(super) async fn plan_of(&self, decision: DecisionId) -> Result<PlanId> {
        let found = self
            .store
            .read(move |tx| Ok::<_, DecisionFailure>(tx.decision(decision)?));
        Ok(found.await?.plan_id)
    }
}

impl CorrectionPreview {
    /// Whether the correction undoes changes of files. An addition to the work of Execute keeps them.
    pub fn undoes_files(&self) -> bool {
        match self.to {
            Phase::Strategize => self.plan.position.phase() != Phase::Strategize,
            Phase::Execute | Phase::Apply => self.mode == CorrectionMode::Revert,
        }
    }

    /// Fails if the plan cannot be corrected at `position`.
    pub(super) fn check_move(&self, position: Position) -> Result<()> {
        let moved = position.after(Move::Correct(self.to));
        moved.map_err(|illegal| LifecycleError::Illegal {
            plan: self.plan.identity.plan_id,
            illegal,
        })?;
        Ok(())
    }
}

/// Returns the position of a plan after the abort of its stopped apply, or the same position if it
/// has none.
fn after_abort(position: Position) -> Position {
    if position.is_terminal() || position.point_of_no_return() == PointOfNoReturn::Ahead {
        return position;
    }
    let stopped = position.after(Move::Fail).unwrap_or(position);
    stopped.after(Move::Abort).unwrap_or(position)
}

/// Computes the effects of correcting `decision` of `plan`. A caller that makes the correction must
/// have locked the plan, so that the result stays true (law 1), and must check the move.
pub(super) fn preview_correction(
    tx: &mut dyn Transaction,
    plan: Plan,
    decision: DecisionId,
    mode: CorrectionMode,
) -> Result<CorrectionPreview> {
    let plan_decisions = PlanDecisions::read(tx, plan.identity.plan_id)?;
    let decision = tx.decision(decision)?;
    if decision.is_superseded {
        let decision = decision.decision_id;
        return Err(DecisionFailure::Superseded { decision });
    }
    let to = target_phase(&plan, &decision, mode);
    let impact = plan_decisions.impact(decision.decision_id);
    let superseded = match mode {
        CorrectionMode::Append => Vec::new(),
        CorrectionMode::Revert => {
            let touched = [decision.decision_id].into_iter();
            let touched = touched.chain(impact.downstream.iter().copied());
            // The root is the plan's task: it stays, and the guidance goes below it.
            let stays = |id: &DecisionId| Some(*id) != plan_decisions.root;
            touched.filter(stays).collect()
        }
    };
    Ok(CorrectionPreview {
        unaffected: plan_decisions.count_active() - superseded.len(),
        plan,
        decision,
        mode,
        to,
        superseded,
        impact,
    })
}

/// Returns the phase to repeat. A decision of a phase later than the plan's current one is repeated
/// when the plan gets there.
fn target_phase(plan: &Plan, decision: &Decision, mode: CorrectionMode) -> Phase {
    let here = plan.position.phase();
    match mode {
        CorrectionMode::Revert if decision.phase == Phase::Strategize => Phase::Strategize,
        _ if here == Phase::Execute => Phase::Execute,
        // Apply has no work to repeat.
        _ => Phase::Strategize,
    }
}

/// The decisions of a plan and the edges between them.
pub(super) struct PlanDecisions {
    pub(super) decisions: Vec<Decision>,
    pub(super) root: Option<DecisionId>,
    children: Vec<DecisionEdge>,
    influences: Vec<DecisionEdge>,
}

impl PlanDecisions {
    pub(super) fn read(tx: &mut dyn Transaction, plan: PlanId) -> Result<Self> {
        let decisions = tx.decisions_of(plan)?;
        let edge = |decision: &Decision| {
            Some(DecisionEdge {
                from: decision.parent_decision_id?,
                to: decision.decision_id,
            })
        };
        Ok(Self {
            children: decisions.iter().filter_map(edge).collect(),
            root: decisions
                .iter()
                .find(|decision| decision.parent_decision_id.is_none())
                .map(|decision| decision.decision_id),
            influences: tx.influences_of(plan)?,
            decisions,
        })
    }

    /// Returns the number of active decisions.
    fn count_active(&self) -> usize {
        let is_active = |decision: &&Decision| !decision.is_superseded;
        self.decisions.iter().filter(is_active).count()
    }

    /// Returns what depends on `target`.
    pub(super) fn impact(&self, target: DecisionId) -> Impact {
        let by_id: HashMap<DecisionId, &Decision> = self
            .decisions
            .iter()
            .map(|decision| (decision.decision_id, decision))
            .collect();
        let affected = affected_by_correction(target, &self.children, &self.influences);
        let counting: Vec<&Decision> = affected
            .iter()
            .filter_map(|id| by_id.get(id).copied())
            .filter(|decision| !decision.is_superseded || decision.decision_id == target)
            .collect();
        let plans = counting.iter().flat_map(|it| &it.downstream_plan_ids);
        let artifacts = counting.iter().flat_map(|it| &it.artifacts_produced);
        Impact {
            child_plans: plans
                .copied()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            artifacts: artifacts
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            downstream: counting
                .iter()
                .map(|decision| decision.decision_id)
                .filter(|id| *id != target)
                .collect(),
        }
    }
}
