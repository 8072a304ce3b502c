//! `plan.reject`

use cleveragents_domain::validation::ValidationSummary;
use cleveragents_domain::{NamespacedName, ResourcePath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollback::UndoCheckpoint;
use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Removes a file, or one hunk of it, from a plan's result and validates the rest. An apply that
/// stopped half-way is aborted and undone first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanReject {
    pub plan: PlanReference,
    /// `FILE` or `FILE:HUNK`, with hunks counted from 1. A `:` in the name of a file is `%3A`.
    pub part: String,
    /// The reason, for the record and the next attempt.
    pub why: String,
    /// The resource of the file. Needed if several have this path.
    #[serde(default)]
    pub resource: Option<NamespacedName>,
}

impl Request for PlanReject {
    type Answer = RejectedChange;
    const NAME: &'static str = "plan.reject";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan after a part of its result was rejected.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RejectedChange {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub rejected: RejectedPart,
    /// The validations of the rest.
    pub validation: ValidationSummary,
    /// The state before. A rollback to it undoes the rejection.
    pub undo: UndoCheckpoint,
}

/// The rejected part of a result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RejectedPart {
    pub path: ResourcePath,
    /// `None` if the whole file was rejected.
    pub hunk: Option<u32>,
    pub resource: NamespacedName,
    pub why: String,
    pub paths_changed: Vec<ResourcePath>,
}
