//! Handlers of projects, one file per verb.

mod create;
mod delete;
mod link_resource;
mod list;
mod show;
mod unlink_resource;

use cleveragents_api::NextStep;
use cleveragents_api::project::{
    ProjectCreate, ProjectDetails, ProjectInvariant, ProjectLinkResource,
};
use cleveragents_domain::{Invariant, NamespacedName, Project};

fn details(project: Project) -> ProjectDetails {
    ProjectDetails {
        id: project.id,
        namespace: project.name.namespace().to_owned(),
        name: project.name,
        description: project.description,
        automation_profile: project.automation_profile,
        created_at: project.created_at,
        updated_at: project.updated_at,
    }
}

fn rule(invariant: Invariant) -> ProjectInvariant {
    ProjectInvariant {
        id: invariant.id,
        text: invariant.text,
    }
}

/// Returns the step of linking a resource that the user names.
fn link_step(project: &NamespacedName) -> NextStep {
    let project = project.to_string();
    NextStep::fill_in::<ProjectLinkResource>(&[("project", &project), ("resource", "RESOURCE")])
}

/// Returns the step of creating a project that the user names.
pub(crate) fn create_step() -> NextStep {
    NextStep::fill_in::<ProjectCreate>(&[("name", "NAME"), ("path", "DIR")])
}
