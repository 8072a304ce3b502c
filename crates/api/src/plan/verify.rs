//! `plan.verify`

use cleveragents_domain::id::PlanId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Verifies that the journal of a plan was not altered. Of a deleted plan, only the whole id names
/// the journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanVerify {
    pub plan: PlanReference,
    /// The expected hash of the newest event.
    #[serde(default)]
    pub expect: Option<String>,
}

impl Request for PlanVerify {
    type Answer = VerifiedJournal;
    const NAME: &'static str = "plan.verify";
    const KIND: RequestKind = RequestKind::Read;
}

/// A journal that was not altered. An altered one is a failure instead, which names the fault.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedJournal {
    pub plan_id: PlanId,
    /// Always `true`.
    pub verified: bool,
    pub events: i64,
    /// The number of events whose payload was erased.
    pub purged: i64,
    pub head_hash: String,
}
