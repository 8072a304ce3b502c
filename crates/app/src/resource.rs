//! Handlers of resources, one file per verb.

mod add;
mod list;
mod remove;
mod show;
mod tree;

use cleveragents_api::NextStep;
use cleveragents_api::project::ProjectLinkResource;
use cleveragents_api::resource::{LinkedResource, ResourceAdd, ResourceDetails, ResourceIsolation};
use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::projects::ResourceView;

pub(crate) fn details(resource: Resource) -> ResourceDetails {
    ResourceDetails {
        id: resource.id,
        name: resource.name,
        resource_type: resource.resource_type,
        sandbox: ResourceIsolation::of(resource.resource_type),
        path: resource.path,
        created_at: resource.created_at,
    }
}

fn linked(found: ResourceView) -> LinkedResource {
    LinkedResource {
        resource: details(found.resource),
        projects: found.projects,
    }
}

/// Returns the step of linking a resource to a project that the user names.
fn link_step(resource: &NamespacedName) -> NextStep {
    let resource = resource.to_string();
    NextStep::fill_in::<ProjectLinkResource>(&[("project", "PROJECT"), ("resource", &resource)])
}

/// Returns the step of registering a directory that the user names.
pub(crate) fn add_step() -> NextStep {
    NextStep::fill_in::<ResourceAdd>(&[
        ("resource_type", "git-checkout"),
        ("name", "NAME"),
        ("path", "DIR"),
    ])
}
