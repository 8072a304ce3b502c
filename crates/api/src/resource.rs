//! Resources: directories that plans may work on.

use std::path::PathBuf;

use cleveragents_domain::id::ResourceId;
use cleveragents_domain::{AbsolutePath, NamespacedName, ResourceType, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};

/// Registers a directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAdd {
    pub resource_type: ResourceType,
    pub name: NamespacedName,
    /// The absolute path of the directory.
    pub path: PathBuf,
}

/// Lists resources, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResourceList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub resource_type: Option<ResourceType>,
    pub limit: Option<u32>,
}

/// Returns a resource and the projects it is linked to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceShow {
    pub name: NamespacedName,
}

/// Returns projects, their resources, and nested resources, as the rows of a tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResourceTree {
    /// Only this resource and what is inside it.
    pub name: Option<NamespacedName>,
}

/// Unregisters a resource that no project uses. Its files are kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRemove {
    pub name: NamespacedName,
}

impl Request for ResourceAdd {
    type Answer = ResourceDetails;
    const NAME: &'static str = "resource.add";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ResourceList {
    type Answer = ResourcePage;
    const NAME: &'static str = "resource.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ResourceShow {
    type Answer = LinkedResource;
    const NAME: &'static str = "resource.show";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ResourceTree {
    type Answer = ResourceTreeRows;
    const NAME: &'static str = "resource.tree";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ResourceRemove {
    type Answer = RemovedResource;
    const NAME: &'static str = "resource.remove";
    const KIND: RequestKind = RequestKind::Write;
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceDetails {
    pub id: ResourceId,
    pub name: NamespacedName,
    #[serde(rename = "type")]
    pub resource_type: ResourceType,
    pub sandbox: ResourceIsolation,
    pub path: AbsolutePath,
    pub created_at: Timestamp,
}

/// Isolation of work on a resource until it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxStrategy")]
pub enum ResourceIsolation {
    #[serde(rename = "private git tree")]
    GitTree,
    #[serde(rename = "copy")]
    Copy,
}

impl ResourceIsolation {
    /// Returns how resources of this type are isolated.
    pub fn of(resource_type: ResourceType) -> Self {
        match resource_type {
            ResourceType::GitCheckout => Self::GitTree,
            ResourceType::FsDirectory => Self::Copy,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitTree => "private git tree",
            Self::Copy => "copy",
        }
    }
}

/// A resource with the projects it is linked to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LinkedResource {
    #[serde(flatten)]
    pub resource: ResourceDetails,
    /// Newest first.
    pub projects: Vec<NamespacedName>,
}

/// The resources that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourcePage {
    pub resources: Vec<LinkedResource>,
    pub filters: ResourceFilters,
    pub summary: ResourceCounts,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceFilters {
    #[serde(rename = "type")]
    pub resource_type: Option<ResourceType>,
    pub pattern: Option<String>,
    pub limit: Option<u32>,
}

/// Counts over all resources that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceCounts {
    pub total: usize,
}

/// A resource that was unregistered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemovedResource {
    pub removed: ResourceDetails,
}

/// A tree of projects and resources, parents before their children.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTreeRows {
    pub tree: Vec<ResourceTreeRow>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTreeRow {
    /// 0 for a root; at most one more than that of the row above.
    pub depth: usize,
    pub kind: ResourceTreeRowKind,
    /// `None` for the parent of unlinked resources.
    pub name: Option<NamespacedName>,
    /// Only for a resource.
    #[serde(rename = "type")]
    pub resource_type: Option<ResourceType>,
    /// Only for a resource.
    pub path: Option<AbsolutePath>,
    /// Below a project: whether the resource is linked to it, or only inside a linked one.
    pub linked: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceTreeRowKind {
    Project,
    /// The parent of resources that are linked to no project.
    Unlinked,
    Resource,
}
