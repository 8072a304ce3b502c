//! `plan.diff`

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{NamespacedName, ResourcePath, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Returns the difference between the files at the start of a plan and its result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanDiff {
    pub plan: PlanReference,
    /// Fails if there is more than one patch.
    #[serde(default)]
    pub patch: bool,
    /// Only these files or folders.
    #[serde(default)]
    pub files: Vec<String>,
    /// Only this resource.
    #[serde(default)]
    pub resource: Option<NamespacedName>,
}

impl Request for PlanDiff {
    type Answer = PlanDiffAnswer;
    const NAME: &'static str = "plan.diff";
    const KIND: RequestKind = RequestKind::Read;
}

/// The changes of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanDiffAnswer {
    pub diff_summary: DiffSummary,
    pub files_left_out_of_preview: usize,
    pub files: Vec<DiffFile>,
    /// The first hunks of the first files.
    pub patch_preview: Vec<FilePreview>,
    /// The patch, if exactly one resource changed.
    pub patch: Option<String>,
    /// One per created sandbox, changed or not.
    pub resources: Vec<DiffResource>,
    pub risk_assessment: RiskAssessment,
}

/// Counts over all changed files.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffSummary {
    pub plan: PlanId,
    /// The names of the projects, separated by commas.
    pub project: String,
    pub files_changed: usize,
    pub insertions: u64,
    pub deletions: u64,
    /// For example `+8 lines`.
    pub net_change: String,
}

/// One changed file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffFile {
    pub path: ResourcePath,
    /// The changed lines, such as `+8 -2`, or `binary`.
    pub change: String,
    pub status: FileStatus,
    pub renamed_from: Option<ResourcePath>,
    pub resource: NamespacedName,
}

/// The kind of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    Added,
    Deleted,
    /// Content or mode differ.
    Modified,
    /// Moved from `renamed_from`; the content may differ too.
    Renamed,
    /// A file became a link, or the reverse.
    Retyped,
}

impl FileStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Deleted => "deleted",
            Self::Modified => "modified",
            Self::Renamed => "renamed",
            Self::Retyped => "retyped",
        }
    }
}

/// The first hunks of one file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FilePreview {
    pub file: ResourcePath,
    pub resource: NamespacedName,
    pub hunks_left_out: usize,
    pub hunks: Vec<HunkPreview>,
}

/// The first lines of one hunk.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HunkPreview {
    /// The line ranges, such as `-1,3 +1,4`.
    pub range: String,
    pub lines_left_out: usize,
    pub deletions: Vec<String>,
    pub insertions: Vec<String>,
}

/// The changes of one resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffResource {
    pub resource: NamespacedName,
    pub sandbox_id: SandboxId,
    pub base_tree: Option<TreeId>,
    pub tree: Option<TreeId>,
    pub files_changed: usize,
    pub insertions: u64,
    pub deletions: u64,
    pub patch: String,
    /// `false` if the patch is not valid UTF-8, so that `patch` has replacement characters.
    pub patch_is_exact: bool,
    /// The exact patch, for a front end in the same process. Not serialised: secrets can be masked
    /// in text only.
    #[serde(skip)]
    pub patch_bytes: Option<Vec<u8>>,
}

/// Judgements about the changes. Nothing computes them yet: all are `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RiskAssessment {
    pub api_compatibility: Option<String>,
    pub test_coverage: Option<String>,
    pub breaking_changes: Option<String>,
}
