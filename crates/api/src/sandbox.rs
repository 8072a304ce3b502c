//! Sandboxes: the private copies of resources in which plans work.

use std::collections::BTreeMap;

use cleveragents_domain::id::{ApplyId, IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxState};
use cleveragents_domain::{
    AbsolutePath, BaseSource, NamespacedName, Phase, PlanState, ResourceType, Timestamp, TreeId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::PlanReference;
use crate::request::{Request, RequestKind};
use crate::time_span::TimeSpan;

/// Removes sandboxes and data of applies that are no longer needed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxGc {
    /// Only reports what would be removed.
    pub dry_run: bool,
    /// Only of plans that finished at least this long ago.
    pub older_than: Option<TimeSpan>,
}

/// Lists sandboxes, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxList {
    /// Only those of resources whose names match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub state: Option<SandboxState>,
    pub plan: Option<PlanReference>,
    pub limit: Option<usize>,
}

/// Returns a sandbox with its plan and size.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxShow {
    pub sandbox: IdFragment,
}

impl Request for SandboxGc {
    type Answer = SandboxesCollected;
    const NAME: &'static str = "sandbox.gc";
    const KIND: RequestKind = RequestKind::Write;

    fn kind(&self) -> RequestKind {
        if self.dry_run {
            RequestKind::Read
        } else {
            Self::KIND
        }
    }
}

impl Request for SandboxList {
    type Answer = SandboxPage;
    const NAME: &'static str = "sandbox.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for SandboxShow {
    type Answer = SandboxDetails;
    const NAME: &'static str = "sandbox.show";
    const KIND: RequestKind = RequestKind::Read;
}

/// The sandboxes that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPage {
    pub sandboxes: Vec<SandboxSummary>,
    /// Folders of sandboxes without a record.
    pub unknown: Vec<SandboxId>,
    pub filters: SandboxFilters,
    pub summary: SandboxCounts,
}

/// A recorded sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSummary {
    pub id: SandboxId,
    pub plan_id: PlanId,
    pub resource: NamespacedName,
    pub resource_path: AbsolutePath,
    #[serde(rename = "type")]
    pub resource_type: ResourceType,
    pub base: BaseSource,
    pub base_commit: Option<String>,
    /// `None` until the sandbox has been created.
    pub base_tree: Option<TreeId>,
    /// The tree after the last confirmed tool call.
    pub tree: Option<TreeId>,
    pub state: SandboxState,
    /// The recorded state of its folder.
    pub folder: FolderState,
    /// The machine that holds the sandbox.
    pub node: Option<String>,
    /// Whether its folder exists on this machine.
    pub on_disk: bool,
    /// Whether another machine holds it, so that its folder cannot be seen here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_other_node: bool,
    /// The folder with its files.
    pub path: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxFilters {
    pub state: Option<SandboxState>,
    pub plan: Option<PlanReference>,
    pub pattern: Option<String>,
}

/// Counts over all sandboxes that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCounts {
    pub total: usize,
    /// For every state.
    pub by_state: BTreeMap<String, usize>,
}

/// A sandbox with its plan and size.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxDetails {
    #[serde(flatten)]
    pub sandbox: SandboxSummary,
    /// The size of its folder; `None` if the folder is not on this machine.
    pub bytes: Option<u64>,
    /// The same as text, such as `1.5 KiB`.
    pub size: Option<String>,
    pub plan: NamespacedName,
    pub phase: Phase,
    pub plan_state: PlanState,
}

/// The outcome of removing what is no longer needed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxesCollected {
    pub dry_run: bool,
    /// Removed, or to be removed if this was a dry run.
    pub removed: Vec<CollectedSandbox>,
    pub kept: Vec<CollectedSandbox>,
    /// Could not be removed; the next run tries again.
    pub failed: Vec<CollectedSandbox>,
    /// The data of applies.
    pub applies: Vec<CollectedApply>,
    pub summary: CollectedCounts,
}

/// A sandbox, and why it was removed or kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CollectedSandbox {
    pub id: SandboxId,
    /// `None` if it has no record and no marker.
    pub plan_id: Option<PlanId>,
    /// `None` if it has no record.
    pub resource: Option<NamespacedName>,
    pub reason: String,
}

/// The data of an apply, and why it was removed or kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CollectedApply {
    pub id: ApplyId,
    /// `None` if the plan was deleted.
    pub plan_id: Option<PlanId>,
    pub what: CollectionOutcome,
    pub reason: String,
}

/// The decision about something that may no longer be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CollectionOutcome {
    /// Removed, or to be removed if this was a dry run.
    Removed,
    Kept,
    /// Could not be removed; the next run tries again.
    Failed,
}

/// Counts over the sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CollectedCounts {
    pub removed: usize,
    pub kept: usize,
    pub failed: usize,
}
