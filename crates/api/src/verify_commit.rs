//! The check of a commit against the journal of the plan that made it.

use std::path::PathBuf;

use cleveragents_domain::NamespacedName;
use cleveragents_domain::apply_record::ApplyDirection;
use cleveragents_domain::id::{ApplyId, PlanId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};

/// Checks that a commit is exactly the one that the journal of its plan records.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct VerifyCommit {
    /// The commit, as git names it.
    pub revision: String,
    /// A folder of its repository.
    pub path: PathBuf,
}

impl Request for VerifyCommit {
    type Answer = CheckedCommit;
    const NAME: &'static str = "verify_commit";
    const KIND: RequestKind = RequestKind::Read;
}

/// A commit that its journal records. Any other is a failure instead, which names the reason.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckedCommit {
    pub commit: String,
    /// Always `true`.
    pub verified: bool,
    pub plan_id: PlanId,
    pub plan_name: NamespacedName,
    pub apply_id: ApplyId,
    /// Whether the commit applies the plan or reverses it.
    pub direction: ApplyDirection,
    /// The place in the journal that the commit names.
    pub plan_seq: i64,
    /// The hash of the event there.
    pub journal_hash: String,
    /// The number of events of the verified journal.
    pub events: i64,
}
