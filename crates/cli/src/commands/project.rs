//! `agents project`: named sets of resources that plans work on.

mod create;
mod delete;
mod link_resource;
mod list;
mod show;
mod unlink_resource;

use clap::Subcommand;
use cleveragents_domain::{Invariant, Project, Resource};
use serde_json::{Value, json};

use super::CommandContext;
use super::resource::summary;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Group resources that plans work on into projects
///
/// A project has resources (git checkouts and folders), invariants for all its plans, and
/// optionally an automation profile.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents project create shop --path .
  agents project show shop
  agents project link-resource shop local/library
  agents project delete shop")]
pub enum ProjectCommand {
    Create(create::ProjectCreateArgs),
    List(list::ProjectListArgs),
    Show(show::ProjectShowArgs),
    Delete(delete::ProjectDeleteArgs),
    LinkResource(link_resource::ProjectLinkResourceArgs),
    UnlinkResource(unlink_resource::ProjectUnlinkResourceArgs),
}

impl ProjectCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Create(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::LinkResource(command) => command.run(context),
            Self::UnlinkResource(command) => command.run(context),
        }
    }
}

/// Returns a project for JSON output.
fn data(project: &Project) -> Value {
    json!({
        "id": project.id,
        "name": project.name,
        "namespace": project.name.namespace(),
        "description": project.description,
        "automation_profile": project.automation_profile,
        "created_at": project.created_at,
        "updated_at": project.updated_at,
    })
}

fn rule(invariant: &Invariant) -> Value {
    json!({"id": invariant.id, "text": invariant.text})
}

/// Returns a project with its resources and rules for people.
fn view(
    project: &Project,
    resources: &[Resource],
    invariants: &[Invariant],
    plans: Option<String>,
) -> OutputView {
    let faint = |text: &str| ViewCell::new(text, Tone::Faint);
    let description = project.description.as_deref();
    let profile = project.automation_profile.as_ref();
    let mut rows = vec![
        (
            "name",
            ViewCell::new(project.name.to_string(), Tone::Strong),
        ),
        (
            "description",
            description.map_or(faint("-"), ViewCell::from),
        ),
        (
            "automation profile",
            profile.map_or(faint("(none)"), |name| name.to_string().into()),
        ),
        ("created", project.created_at.to_string().into()),
    ];
    if let Some(plans) = plans {
        rows.push(("plans", plans.into()));
    }
    let mut view = OutputView::new().panel("Project", rows);
    if !resources.is_empty() {
        let headers = ["name", "type", "sandbox", "path"];
        view = view.table("Resources", &headers, resources.iter().map(summary));
    }
    if !invariants.is_empty() {
        let rules = invariants.iter().map(|invariant| {
            let id = ViewCell::new(invariant.id.short(), Tone::Faint);
            vec![id, invariant.text.clone().into()]
        });
        view = view.table("Invariants", &["id", "text"], rules);
    }
    view
}
