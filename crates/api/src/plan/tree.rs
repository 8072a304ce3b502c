//! `plan.tree`

use std::collections::BTreeMap;

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::strategy::StrategyStep;
use cleveragents_domain::{
    Confidence, Decision, DecisionType, NamespacedName, Phase, PlanState, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Returns the decisions of a plan as a tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanTree {
    pub plan: PlanReference,
    /// Includes superseded decisions.
    #[serde(default)]
    pub show_superseded: bool,
}

impl Request for PlanTree {
    type Answer = PlanTreeAnswer;
    const NAME: &'static str = "plan.tree";
    const KIND: RequestKind = RequestKind::Read;
}

/// The decisions of a plan, nested and as a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanTreeAnswer {
    pub plan_id: PlanId,
    pub name: NamespacedName,
    pub phase: Phase,
    pub state: PlanState,
    pub attempt: u32,
    /// The first root with its descendants, down to a limited depth.
    pub tree: Option<NestedDecision>,
    /// All included decisions: parents before their children, siblings in the order of decision.
    pub nodes: Vec<TreeDecision>,
    pub summary: TreeCounts,
    pub child_plans: Vec<ChildPlan>,
    pub strategy: Option<CurrentStrategy>,
    /// A name for each decision, such as `root`, `strategy` or `invariant_1`.
    pub decision_ids: BTreeMap<String, DecisionId>,
}

/// The fields of a decision that the nested tree and the list share.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DecisionFacts {
    pub id: DecisionId,
    #[serde(rename = "type")]
    pub decision_type: DecisionType,
    pub question: String,
    /// The chosen option.
    pub description: String,
    pub alternatives: Vec<String>,
    /// Position among the plan's decisions: 1, 2, 3 …
    pub sequence: i64,
    pub superseded: bool,
    pub correction: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// The first child plan that it created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
}

/// A decision with the decisions below it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NestedDecision {
    #[serde(flatten)]
    pub decision: DecisionFacts,
    pub children: Vec<NestedDecision>,
    /// The number of decisions below it that are left out, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deeper: Option<u64>,
}

/// A decision with its place in the tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TreeDecision {
    #[serde(flatten)]
    pub decision: DecisionFacts,
    /// The decision's parent, or its nearest included ancestor.
    pub parent_id: Option<DecisionId>,
    /// 0 for a root.
    pub depth: usize,
}

/// Counts over the tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TreeCounts {
    pub nodes: usize,
    /// The number of levels.
    pub depth: usize,
    pub child_plans: usize,
    /// The number of effective rules; one that was decided again for a later phase counts once.
    pub invariants: usize,
    /// The number of superseded decisions, included or not.
    pub superseded: usize,
}

/// A plan that a decision of this plan created.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChildPlan {
    pub id: PlanId,
    pub phase: Phase,
    pub state: PlanState,
}

/// The strategy that the plan follows.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CurrentStrategy {
    /// Position among the plan's strategies: 1, 2, 3 …
    pub number: i64,
    /// The hash by which it is approved.
    pub hash: String,
    pub decision_id: DecisionId,
    pub summary: String,
    pub steps: Vec<StrategyStep>,
    pub approved_by: Option<String>,
    pub approved_at: Option<Timestamp>,
}

impl From<&Decision> for DecisionFacts {
    fn from(decision: &Decision) -> Self {
        Self {
            id: decision.decision_id,
            decision_type: decision.decision_type,
            question: decision.question.clone(),
            description: decision.chosen_option.clone(),
            alternatives: decision.alternatives_considered.clone(),
            sequence: decision.sequence_number,
            superseded: decision.is_superseded,
            correction: decision.is_correction,
            confidence: decision.confidence_score,
            plan_id: decision.downstream_plan_ids.first().copied(),
        }
    }
}
