//! `plan.correct`

use cleveragents_domain::id::{CheckpointId, CorrectionId, DecisionId, PlanId};
use cleveragents_domain::{CorrectionMode, CorrectionState, DecisionType, Phase, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::explain::CorrectionImpact;
use super::{DecisionReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Changes a decision, or adds to it. The plan returns to the phase of the decision as a new
/// attempt. An apply that stopped half-way is aborted and undone first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCorrect {
    pub decision: DecisionReference,
    pub mode: CorrectionMode,
    /// The new decision, or what to add.
    pub guidance: String,
    /// Only returns what the correction would do.
    #[serde(default)]
    pub dry_run: bool,
}

impl Request for PlanCorrect {
    type Answer = CorrectedPlan;
    const NAME: &'static str = "plan.correct";
    const KIND: RequestKind = RequestKind::Write;
}

/// A correction or its preview. The keys tell them apart.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CorrectedPlan {
    Preview(PreviewedCorrection),
    Reverted(RevertedDecision),
    Appended(AppendedGuidance),
}

/// The effects of a correction.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PreviewedCorrection {
    /// Always `true`.
    pub dry_run: bool,
    pub plan_id: PlanId,
    /// The plan, which is unchanged.
    pub plan: PlanSummary,
    pub decision: CorrectedDecision,
    pub correction: CorrectionPreview,
    /// The decisions that would be superseded, nearest first.
    pub would_revert: Vec<CorrectedDecision>,
    pub affected_subtree: AffectedSubtree,
    /// The phase that the plan would return to.
    pub goes_back_to: Phase,
}

/// A correction that replaced a decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevertedDecision {
    pub plan_id: PlanId,
    /// The plan after the correction.
    pub plan: PlanSummary,
    /// The decision that was replaced.
    pub decision: CorrectedDecision,
    pub correction: CompletedCorrection,
    pub affected_subtree: AffectedSubtree,
    pub sandbox_rollback: SandboxRollback,
    pub recompute: QueuedPhase,
    /// The corrections of the plan, newest first.
    pub history: Vec<PastCorrection>,
}

/// A correction that added to a decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppendedGuidance {
    pub plan_id: PlanId,
    /// The plan after the correction.
    pub plan: PlanSummary,
    /// The decision that was added to.
    pub decision: CorrectedDecision,
    pub correction: CompletedCorrection,
    pub append_detail: AppendDetail,
    pub queued: QueuedDecision,
    /// The corrections of the plan, newest first.
    pub history: Vec<PastCorrection>,
}

/// A decision that a correction concerns.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectedDecision {
    pub id: DecisionId,
    #[serde(rename = "type")]
    pub decision_type: DecisionType,
    pub chosen: String,
}

/// A correction that was not made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectionPreview {
    pub mode: CorrectionMode,
    pub impact: CorrectionImpact,
    /// Always `null`: only a correction creates a decision.
    pub new_decision: Option<DecisionId>,
    pub corrects: DecisionId,
    /// The number that the next attempt would have.
    pub attempt: u32,
}

/// A correction that was made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CompletedCorrection {
    pub id: CorrectionId,
    pub mode: CorrectionMode,
    pub impact: CorrectionImpact,
    /// The guidance as a decision.
    pub new_decision: DecisionId,
    pub corrects: DecisionId,
    pub attempt: u32,
    pub state: CorrectionState,
}

/// Records that depend on a decision, and the effect of a correction on them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AffectedSubtree {
    pub decisions_invalidated: usize,
    /// Always 0: a correction leaves child plans as they are.
    pub child_plans_rolled_back: usize,
    /// The number of changed files that only a checkpoint holds from now on. `None` if that is not
    /// known before the correction.
    pub artifacts_archived: Option<usize>,
    pub unaffected_decisions: usize,
}

/// The effect of a correction on the files of a plan's sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRollback {
    pub status: SandboxRollbackStatus,
    /// The restored checkpoint. `None` if nothing was restored, or if it was the initial state.
    pub checkpoint: Option<CheckpointId>,
    /// The number of files whose changes were undone.
    pub files_reverted: usize,
}

/// Whether a correction undid changes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxRollbackStatus {
    /// The sandboxes stay as they are.
    None,
    /// The sandboxes have their state from before the decision when they are used next.
    RolledBack,
}

/// The phase that is repeated.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueuedPhase {
    pub queued: Phase,
    /// Always `null`: nothing estimates durations yet.
    pub eta: Option<Timestamp>,
}

/// The effects of guidance that was added.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppendDetail {
    /// Whether no decision was superseded.
    pub original_decision_preserved: bool,
    /// The number of files that depend on the decision and were kept.
    pub existing_artifacts_kept: usize,
    pub additional_work: String,
    pub note: String,
}

/// The guidance that waits for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueuedDecision {
    pub new_child: DecisionId,
    /// Always `null`: nothing estimates durations yet.
    pub eta: Option<Timestamp>,
}

/// A correction in the history of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PastCorrection {
    pub id: CorrectionId,
    pub decision: DecisionId,
    pub mode: CorrectionMode,
    pub guidance: String,
    pub state: CorrectionState,
    pub created: Timestamp,
}
