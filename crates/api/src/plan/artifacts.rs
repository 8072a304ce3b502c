//! `plan.artifacts`

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, ResourcePath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Lists the files that a plan wrote, edited and deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanArtifacts {
    pub plan: PlanReference,
}

impl Request for PlanArtifacts {
    type Answer = ArtifactPage;
    const NAME: &'static str = "plan.artifacts";
    const KIND: RequestKind = RequestKind::Read;
}

/// The net change of a plan, one entry per path.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactPage {
    pub plan_id: PlanId,
    /// The names of the projects, separated by commas.
    pub project: String,
    /// Ordered by resource, then by path.
    pub artifacts: Vec<PlanArtifact>,
    pub summary: ArtifactCounts,
    pub by_plan: ArtifactsByPlan,
}

/// The net change of one path.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanArtifact {
    pub path: ResourcePath,
    #[serde(rename = "type")]
    pub kind: ArtifactKind,
    /// `None` for a deleted file.
    pub size: Option<String>,
    pub bytes: Option<u64>,
    /// The git file mode, in octal digits.
    pub mode: Option<String>,
    /// BLAKE3 of the content.
    pub hash: Option<String>,
    /// The changed lines, such as `+8 -2`, or `binary`.
    pub change: String,
    /// Always `null`: all artifacts are those of the plan itself.
    pub child_plan: Option<PlanId>,
    pub resource: NamespacedName,
}

/// The kind of change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// The file is new.
    Write,
    Edit,
    Delete,
}

impl ArtifactKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Delete => "delete",
        }
    }
}

/// Counts over the artifacts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactCounts {
    pub total: usize,
    pub writes: usize,
    pub edits: usize,
    pub deletes: usize,
    pub total_size: String,
    pub total_bytes: u64,
}

/// The number of artifacts by plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactsByPlan {
    /// Those of the plan itself.
    pub root: usize,
}
