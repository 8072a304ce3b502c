//! `plan.find` and `plan.find_recent`

use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Returns the plan that a reference names, to ask the user about exactly this plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanFind {
    pub plan: PlanReference,
}

impl Request for PlanFind {
    type Answer = PlanSummary;
    const NAME: &'static str = "plan.find";
    const KIND: RequestKind = RequestKind::Read;
}

/// Returns one of the newest plans on the projects of a folder.
///
/// A request of its own, so that a command that sends several requests about "the newest plan"
/// means the same plan in all of them, even if another plan is created meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanFindRecent {
    /// A folder inside a resource of the projects, or the resource itself.
    pub folder: PathBuf,
    /// 1 for the newest plan.
    pub number: NonZeroU32,
}

impl Request for PlanFindRecent {
    type Answer = PlanSummary;
    const NAME: &'static str = "plan.find_recent";
    const KIND: RequestKind = RequestKind::Read;
}
