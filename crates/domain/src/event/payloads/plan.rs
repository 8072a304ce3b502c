//! Payloads about a plan as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::Budget;
use crate::approval::PendingApprovals;
use crate::error_record::ErrorRecord;
use crate::lifecycle::{MoveKind, Phase, PlanState, PointOfNoReturn, WaitReason};
use crate::message::PlanMessage;
use crate::name::NamespacedName;
use crate::plan::{Plan, is_default};

/// A plan was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanCreated(pub Plan);

/// A change of the phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseChange {
    pub from: Phase,
    pub from_state: PlanState,
    pub to: Phase,
    pub reversions: u32,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// A plan entered the next phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanPhaseChanged(pub PhaseChange);

/// A plan went back to Strategize.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanReverted(pub PhaseChange);

/// A plan went back to an earlier phase because a decision was corrected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanCorrected(pub PhaseChange);

/// A change of the state within a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    pub phase: Phase,
    pub from: PlanState,
    pub to: PlanState,
    pub by: MoveKind,
    pub waiting: Option<WaitReason>,
    pub point_of_no_return: PointOfNoReturn,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// A plan changed its state in a way that has no kind of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanStateChanged(pub StateChange);

/// A plan's changes were applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanApplied(pub StateChange);

/// A plan was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanCancelled(pub StateChange);

/// A plan failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanErrored(pub StateChange);

/// A plan waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanWaiting(pub StateChange);

/// The user sent guidance to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanPrompted(pub PlanMessage);

/// The user changed a plan's budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanBudgetChanged {
    pub from: Budget,
    pub to: Budget,
}

/// A plan's rows were removed; its journal stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDeleted {
    pub name: NamespacedName,
    pub action: NamespacedName,
    pub phase: Phase,
    pub state: PlanState,
}

/// The position of a plan when the user requested that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPosition {
    pub phase: Phase,
    pub state: PlanState,
    pub waiting: Option<WaitReason>,
    /// The user's approvals in advance, given with the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approvals: PendingApprovals,
}

/// The user requested that a plan runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExecuteRequested(pub RequestPosition);

/// The user requested that a plan runs as far as it may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ResumeRequested(pub RequestPosition);

/// An error was added to a plan's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ErrorRecorded(pub ErrorRecord);
