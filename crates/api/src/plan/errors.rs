//! `plan.errors`

use cleveragents_domain::error_record::{ErrorCategory, RecoveryAction};
use cleveragents_domain::id::{ErrorId, PlanId};
use cleveragents_domain::{NamespacedName, Phase, PlanState, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Returns the errors of a plan and how to recover from them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrors {
    pub plan: PlanReference,
}

impl Request for PlanErrors {
    type Answer = PlanErrorsAnswer;
    const NAME: &'static str = "plan.errors";
    const KIND: RequestKind = RequestKind::Read;
}

/// The error history of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrorsAnswer {
    pub plan_id: PlanId,
    pub name: NamespacedName,
    pub phase: Phase,
    pub state: PlanState,
    pub errors: Vec<PlanError>,
    pub summary: ErrorCounts,
}

/// Counts over the error history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCounts {
    pub total: usize,
    pub occurrences: u64,
}

/// An entry of the error history. Identical errors are counted, not repeated.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanError {
    pub id: ErrorId,
    pub sequence: Option<i64>,
    pub category: ErrorCategory,
    pub message: String,
    pub phase: Phase,
    pub step: Option<u32>,
    pub attempt: u32,
    /// The cause of the error, then the cause of that cause, and so on.
    pub cause_chain: Vec<String>,
    pub recovery: RecoveryAction,
    pub recovery_hints: Vec<ErrorHint>,
    pub occurrences: u64,
    /// The time of the last occurrence.
    pub at: Timestamp,
}

/// A command that could help, with the reason.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorHint {
    pub action: RecoveryAction,
    pub message: String,
    pub cli_command: String,
}
