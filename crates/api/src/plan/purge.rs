//! `plan.purge`

use cleveragents_domain::id::PlanId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Erases payloads from the journal of a plan, on the record. Of a deleted plan, only the whole id
/// names the journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanPurge {
    pub plan: PlanReference,
    /// The first event to erase; from the start if it is not given.
    #[serde(default)]
    pub from_seq: Option<i64>,
    /// The last event to erase; to the end if it is not given.
    #[serde(default)]
    pub to_seq: Option<i64>,
    /// The reason, for the record.
    pub reason: String,
}

impl Request for PlanPurge {
    type Answer = PurgedJournal;
    const NAME: &'static str = "plan.purge";
    const KIND: RequestKind = RequestKind::Write;
}

/// The erased contents.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PurgedJournal {
    pub plan_id: PlanId,
    /// The number of payloads erased by this request.
    pub erased: u64,
    pub reason: String,
    /// The hash of the newest event.
    pub head_hash: String,
}
