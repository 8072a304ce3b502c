//! `agents resource`: places on this machine that plans may work on.

mod add;
mod list;
mod remove;
mod show;
mod tree;

use clap::Subcommand;
use cleveragents_domain::{Resource, ResourceType};
use cleveragents_engine::projects::ResourceView;
use serde_json::{Value, json};

use super::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Tone};

/// Register places that plans may work on
///
/// A resource is a git checkout, which plans work on in a private git tree, or a folder, which
/// they work on in a copy. It can be linked to any number of projects.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents resource add git-checkout local/library --path /srv/library
  agents resource list --type fs-directory
  agents resource tree")]
pub enum ResourceCommand {
    Add(add::Add),
    List(list::List),
    Show(show::Show),
    Tree(tree::Tree),
    Remove(remove::Remove),
}

impl ResourceCommand {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Tree(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}

/// How work on a resource is kept apart until it is applied.
fn sandbox(resource_type: ResourceType) -> &'static str {
    match resource_type {
        ResourceType::GitCheckout => "private git tree",
        ResourceType::FsDirectory => "copy",
    }
}

/// A resource for programs.
pub(super) fn resource_data(resource: &Resource) -> Value {
    json!({
        "id": resource.id,
        "name": resource.name,
        "type": resource.resource_type,
        "sandbox": sandbox(resource.resource_type),
        "path": resource.path,
        "created_at": resource.created_at,
    })
}

/// The same with the projects it is linked to.
fn view_data(found: &ResourceView) -> Value {
    let mut data = resource_data(&found.resource);
    data["projects"] = json!(found.projects);
    data
}

/// A resource in a table for people: name, type, sandbox, path.
pub(super) fn summary(resource: &Resource) -> Vec<Cell> {
    vec![
        Cell::new(resource.name.to_string(), Tone::Strong),
        resource.resource_type.as_str().into(),
        sandbox(resource.resource_type).into(),
        resource.path.to_string().into(),
    ]
}

/// Names for people.
fn joined(names: &[cleveragents_domain::NamespacedName]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}
