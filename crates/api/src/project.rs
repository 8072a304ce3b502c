//! Projects: named sets of resources that plans work on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cleveragents_domain::id::{InvariantId, PlanId, ProjectId};
use cleveragents_domain::{NamespacedName, PlanState, ProfileName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};
use crate::resource::ResourceDetails;

/// Creates a project with its directories and rules, or nothing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectCreate {
    pub name: NamespacedName,
    /// The absolute paths of directories. Each becomes a resource; one that is already registered
    /// is linked under its existing name.
    #[serde(default)]
    pub path: Vec<PathBuf>,
    /// Rules that all plans of the project must keep.
    #[serde(default)]
    pub invariant: Vec<String>,
    #[serde(default)]
    pub description: Option<String>,
    /// The profile of its plans, unless the plan or action sets one.
    #[serde(default)]
    pub automation_profile: Option<ProfileName>,
}

/// Lists projects, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProjectList {
    /// Only names that match this regular expression, ignoring case.
    pub regex: Option<String>,
    pub limit: Option<u32>,
}

/// Returns a project with its resources, rules and the number of its plans.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectShow {
    pub name: NamespacedName,
}

/// Deletes a project with its links and rules. Fails if it has unfinished plans.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDelete {
    pub name: NamespacedName,
    /// Cancels unfinished plans instead of failing.
    #[serde(default)]
    pub force: bool,
}

/// Links a resource to a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectLinkResource {
    pub project: NamespacedName,
    pub resource: NamespacedName,
}

/// Unlinks a resource from a project. It stays registered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectUnlinkResource {
    pub project: NamespacedName,
    pub resource: NamespacedName,
}

impl Request for ProjectCreate {
    type Answer = CreatedProject;
    const NAME: &'static str = "project.create";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ProjectList {
    type Answer = ProjectPage;
    const NAME: &'static str = "project.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ProjectShow {
    type Answer = ProjectContents;
    const NAME: &'static str = "project.show";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ProjectDelete {
    type Answer = DeletedProject;
    const NAME: &'static str = "project.delete";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ProjectLinkResource {
    type Answer = ChangedLink;
    const NAME: &'static str = "project.link_resource";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ProjectUnlinkResource {
    type Answer = ChangedLink;
    const NAME: &'static str = "project.unlink_resource";
    const KIND: RequestKind = RequestKind::Write;
}

/// A project without its resources.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDetails {
    pub id: ProjectId,
    pub name: NamespacedName,
    pub namespace: String,
    pub description: Option<String>,
    pub automation_profile: Option<ProfileName>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A rule of a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectInvariant {
    pub id: InvariantId,
    pub text: String,
}

/// A project after it was created.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedProject {
    pub project: ProjectDetails,
    /// In the order in which they are linked.
    pub resources: Vec<CreatedProjectResource>,
    pub invariants: Vec<ProjectInvariant>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedProjectResource {
    #[serde(flatten)]
    pub resource: ResourceDetails,
    /// Whether it was registered before.
    pub reused: bool,
}

/// The projects that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectPage {
    pub projects: Vec<ProjectSummary>,
    pub filters: ProjectFilters,
    pub summary: ProjectCounts,
}

/// One project in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectSummary {
    #[serde(flatten)]
    pub project: ProjectDetails,
    /// The names of its resources, in the order in which they were linked.
    pub resources: Vec<NamespacedName>,
    /// The number of its plans.
    pub plans: u64,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectFilters {
    pub regex: Option<String>,
    pub limit: Option<u32>,
}

/// Counts over all projects that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectCounts {
    pub total: usize,
}

/// A project with its resources and rules.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectContents {
    pub project: ProjectDetails,
    /// In the order in which they were linked.
    pub resources: Vec<ResourceDetails>,
    pub invariants: Vec<ProjectInvariant>,
    pub plans: ProjectPlans,
}

/// The numbers of a project's plans.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectPlans {
    pub total: u64,
    /// Unfinished plans, which block the deletion of the project.
    pub unfinished: u64,
    /// States without plans are left out.
    pub by_state: BTreeMap<PlanState, u64>,
}

/// The effects of deleting a project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedProject {
    pub deletion_summary: DeletionSummary,
}

/// A deleted project and what was done with its parts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletionSummary {
    pub project: NamespacedName,
    pub resources_unlinked: Vec<NamespacedName>,
    pub plans_cancelled: Vec<PlanId>,
}

/// A link between a project and a resource that was made or removed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangedLink {
    pub project: NamespacedName,
    pub resource: NamespacedName,
    /// `false` if there was nothing to do.
    pub changed: bool,
}
