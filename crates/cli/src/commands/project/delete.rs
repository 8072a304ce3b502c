//! `agents project delete`

use clap::Args;
use cleveragents_api::NextStep;
use cleveragents_api::project::{DeletedProject, ProjectDelete, ProjectShow};

use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm, is_interactive};
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, OutputView, ViewCell, format_count};

/// Delete a project with its links and invariants
///
/// Its resources stay registered and no file is changed. Fails if the project has unfinished plans;
/// --force cancels them first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project delete shop
  agents project delete shop --force --yes")]
pub struct ProjectDeleteArgs {
    /// The project
    name: String,

    /// Cancel unfinished plans
    #[arg(long)]
    force: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl ProjectDeleteArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("project", &self.name)?;
        let request = ProjectDelete {
            name,
            force: self.force,
        };
        if !self.yes && is_interactive(context.environment) {
            confirm_deletion(&request, context)?;
        }
        let reply = context.call(request)?;
        CommandAnswer::from_reply(reply, view)
    }
}

/// Asks for confirmation. Does not ask if the deletion would be refused anyway.
fn confirm_deletion(
    request: &ProjectDelete,
    context: &CommandContext<'_>,
) -> Result<(), CommandFailure> {
    let name = &request.name;
    let shown = context.call(ProjectShow { name: name.clone() })?;
    let question = match shown.answer.plans.unfinished {
        0 => format!("Delete project {name}?"),
        _ if !request.force => return Ok(()),
        number => format!(
            "Delete project {name} and cancel {}?",
            format_count(i64::try_from(number).unwrap_or(i64::MAX), "plan")
        ),
    };
    match confirm(&question, context.environment) {
        Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
        Confirmation::No => Err(
            CommandFailure::new(ExitCode::Decision, "nothing was deleted")
                .because("not confirmed")
                .hint(NextStep::send(request).with_flag("yes")),
        ),
    }
}

fn view(deleted: &DeletedProject) -> OutputView {
    let listed = |texts: Vec<String>| -> ViewCell {
        if texts.is_empty() {
            "none".into()
        } else {
            texts.join(", ").into()
        }
    };
    let summary = &deleted.deletion_summary;
    let names = summary.resources_unlinked.iter().map(ToString::to_string);
    let plans = summary.plans_cancelled.iter().map(|plan| plan.short());
    OutputView::new().panel(
        "Deleted",
        [
            ("project", summary.project.to_string().into()),
            ("resources unlinked", listed(names.collect())),
            ("plans cancelled", listed(plans.collect())),
        ],
    )
}
