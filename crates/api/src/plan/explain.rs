//! `plan.explain`

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Confidence, DecisionType, NamespacedName, Phase, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DecisionReference;
use crate::request::{Request, RequestKind};

/// Explains a decision: its rationale, its context, and what depends on it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanExplain {
    pub decision: DecisionReference,
    /// Includes the actor's context.
    #[serde(default)]
    pub show_context: bool,
    /// Includes the actor's reasoning.
    #[serde(default)]
    pub show_reasoning: bool,
}

impl Request for PlanExplain {
    type Answer = ExplainedDecision;
    const NAME: &'static str = "plan.explain";
    const KIND: RequestKind = RequestKind::Read;
}

/// A decision with its context and what depends on it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedDecision {
    pub decision_id: DecisionId,
    #[serde(rename = "type")]
    pub decision_type: DecisionType,
    pub question: String,
    pub chosen: String,
    pub confidence: Option<Confidence>,
    pub plan_id: PlanId,
    pub plan_name: NamespacedName,
    pub phase: Phase,
    /// Its position among the plan's decisions, such as `2 of 5`.
    pub sequence: String,
    pub created: Timestamp,
    pub superseded: bool,
    pub correction: bool,
    /// Its parent, the parent's parent, and so on to the root.
    pub path: Vec<DecisionId>,
    /// The chosen option of each decision of `path`.
    pub path_choices: Vec<String>,
    pub alternatives: Vec<Alternative>,
    pub impact: DecisionImpact,
    pub context_snapshot: DecisionContext,
    pub rationale: String,
    /// The command that corrects the decision, or why it cannot be corrected.
    pub correction_hint: String,
    /// The stored text of the context. Left out if it was not requested; `null` if none is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Option<String>>,
    /// The parts of the context, if it was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_items: Vec<ContextPart>,
    /// The actor's reasoning, unedited. Left out if it was not requested; `null` if none is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Option<String>>,
}

/// One of the options of a decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// Counted from 1.
    pub index: usize,
    pub description: String,
    pub chosen: bool,
}

/// Records that depend on a decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DecisionImpact {
    pub downstream_decisions: usize,
    pub downstream_child_plans: usize,
    pub artifacts_produced: usize,
    pub correction_impact: CorrectionImpact,
}

/// The cost of correcting a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CorrectionImpact {
    /// Nothing depends on the decision.
    Low,
    /// Something depends on it.
    Medium,
    /// A child plan, or many decisions or files, depend on it.
    High,
}

impl CorrectionImpact {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The actor's context.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DecisionContext {
    /// The names of its parts.
    pub items: Vec<String>,
    pub hot_context_hash: Option<String>,
    pub resources: Vec<String>,
    pub actor_state_hash: Option<String>,
    pub state: ContextState,
    /// The size of the stored text.
    pub bytes: Option<usize>,
}

/// Whether the context of a decision is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContextState {
    /// Nothing was stored with the decision.
    None,
    /// It was stored, but has been released since.
    Released,
    /// It is stored, and its hash was verified.
    Kept,
}

/// A part of the context: a file, a message, a rule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ContextPart {
    pub name: String,
    pub text: String,
}
