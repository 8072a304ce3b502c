//! What a correction would touch, without touching it.

use std::collections::{BTreeSet, HashMap};

use cleveragents_domain::decision::affected_by_correction;
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    CorrectionMode, Decision, DecisionEdge, Move, Phase, Plan, ResourcePath,
};
use serde::{Deserialize, Serialize};

use super::DecisionService;
use super::error::{DecisionFailure, Result};
use crate::lifecycle::{LifecycleError, refuse_owned};
use crate::ports::Transaction;

/// From how many decisions or artifacts on a correction is a large one.
const LARGE_IMPACT: usize = 10;

/// What hangs on a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impact {
    /// The decisions that followed from it and still count, nearest first, without itself.
    pub downstream: Vec<DecisionId>,
    /// The child plans that it and they led to.
    pub child_plans: Vec<PlanId>,
    /// The files that it and they produced.
    pub artifacts: Vec<ResourcePath>,
}

/// How much a correction costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImpactLevel {
    /// Nothing followed from the decision.
    Low,
    /// Something did.
    Medium,
    /// A child plan, or many decisions or files.
    High,
}

/// What a correction would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrectionPreview {
    pub plan: Plan,
    pub decision: Decision,
    pub mode: CorrectionMode,
    /// Where the plan would go back to.
    pub to: Phase,
    /// The decisions that would no longer count, nearest first.
    pub superseded: Vec<DecisionId>,
    /// How many would still count.
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
    /// What [`correct`](Self::correct) would do now, refused where that would be; nothing is
    /// written.
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
                preview_correction(tx, plan, decision, mode)
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

/// What correcting `decision` of `plan` does. Who is going to do it holds the plan, so that what is
/// read here stays true (law 1).
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
    let requested = Move::Correct(to);
    plan.position
        .after(requested)
        .map_err(|illegal| LifecycleError::Illegal {
            plan: plan.identity.plan_id,
            illegal,
        })?;
    let impact = plan_decisions.impact(decision.decision_id);
    let superseded = match mode {
        CorrectionMode::Append => Vec::new(),
        CorrectionMode::Revert => {
            let touched = [decision.decision_id].into_iter();
            let touched = touched.chain(impact.downstream.iter().copied());
            // The root is what the plan was asked to do: it stays, and the guidance comes below it.
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

/// The phase whose work has to be done again. What was decided in a later phase than the plan is
/// in now is done again when the plan comes there.
fn target_phase(plan: &Plan, decision: &Decision, mode: CorrectionMode) -> Phase {
    let here = plan.position.phase();
    match mode {
        CorrectionMode::Revert if decision.phase == Phase::Strategize => Phase::Strategize,
        _ if here == Phase::Execute => Phase::Execute,
        // There is nothing to work on again in apply.
        _ => Phase::Strategize,
    }
}

/// The decisions of a plan and what leads from one to another.
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

    /// How many decisions count.
    fn count_active(&self) -> usize {
        let stands = |decision: &&Decision| !decision.is_superseded;
        self.decisions.iter().filter(stands).count()
    }

    /// What hangs on `target`.
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
