//! Payloads about decisions, corrections, invariants and strategies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::correction::{Correction, CorrectionMode};
use crate::decision::{Decision, DecisionEdge};
use crate::id::{CheckpointId, CorrectionId, DecisionId};
use crate::invariant::Invariant;
use crate::lifecycle::Phase;

/// A decision was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DecisionCreated(pub Decision);

/// One decision was found to use the outcome of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DecisionInfluenced(pub DecisionEdge);

/// A decision was corrected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionCorrected {
    pub correction: CorrectionId,
    pub original: DecisionId,
    pub new: DecisionId,
    pub mode: CorrectionMode,
}

/// Decisions no longer count: because of a correction, a rollback, or rules that no longer apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionSuperseded {
    /// The correction that superseded them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<CorrectionId>,
    /// The checkpoint to which the plan was rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    pub decisions: Vec<DecisionId>,
}

/// A rollback was undone, which reinstated the decisions it had superseded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionReinstated {
    pub checkpoint: CheckpointId,
    pub decisions: Vec<DecisionId>,
}

/// A correction was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CorrectionRequested(pub Correction);

/// A correction is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CorrectionCompleted(pub Correction);

/// A rule was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct InvariantAdded(pub Invariant);

/// A rule was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct InvariantRemoved(pub Invariant);

/// The rules of all scopes were reconciled when a phase began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvariantReconciled {
    pub phase: Phase,
    /// The number of rules in effect.
    pub effective: u64,
    /// The number of rules that became decisions.
    pub added: u64,
    /// The number of rules that no longer apply.
    pub withdrawn: u64,
}

/// A rule in effect became a decision of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct InvariantEnforced(pub Decision);

/// A strategy was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyStored {
    pub number: i64,
    pub hash: String,
    /// The number of its steps.
    pub steps: u64,
    /// The titles of its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<String>,
}

/// A strategy was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyApproved {
    pub number: i64,
    pub hash: String,
}
