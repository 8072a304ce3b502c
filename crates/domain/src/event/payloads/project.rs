//! Payloads about projects and resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{PlanId, ProjectId, ResourceId};
use crate::name::NamespacedName;
use crate::project::{Project, Resource};

/// A project was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProjectCreated(pub Project);

/// A project was deleted; its resources stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDeleted {
    pub id: ProjectId,
    pub name: NamespacedName,
    pub resources_unlinked: Vec<NamespacedName>,
    pub plans_cancelled: Vec<PlanId>,
}

/// A resource was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ResourceAdded(pub Resource);

/// A resource was removed; its files stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRemoved {
    pub id: ResourceId,
    pub name: NamespacedName,
}

/// A resource was linked to a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceLinked {
    pub project: NamespacedName,
    pub resource: NamespacedName,
}

/// A resource was unlinked from a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceUnlinked {
    pub project: NamespacedName,
    pub resource: NamespacedName,
}
