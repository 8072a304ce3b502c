//! Errors of the project service.

use cleveragents_domain::invariant::InvariantError;
use cleveragents_domain::{AbsolutePath, NamespacedName, Plan};

use crate::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

pub type Result<T, E = ProjectError> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum ProjectError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    Invariant(#[from] InvariantError),
    #[error("{what} may be {maximum} bytes long, this one has {length}")]
    TooLong {
        what: &'static str,
        maximum: usize,
        length: usize,
    },
    #[error("there is no automation profile `{name}`")]
    UnknownProfile { name: String },
    #[error("project {project} has plans that are not finished")]
    ActivePlans {
        project: NamespacedName,
        plans: Vec<Plan>,
    },
    #[error("plans of project {project} are being run; they were asked to stop")]
    Stopping {
        project: NamespacedName,
        plans: Vec<Plan>,
    },
    #[error("plans of project {project} are applying their changes, which cannot be cancelled")]
    Applying {
        project: NamespacedName,
        plans: Vec<Plan>,
    },
    #[error("{path} is registered as {resource}")]
    PathTaken {
        path: AbsolutePath,
        resource: NamespacedName,
    },
    #[error("resource {resource} is linked to {}", projects.join(", "))]
    Linked {
        resource: NamespacedName,
        projects: Vec<String>,
    },
}
