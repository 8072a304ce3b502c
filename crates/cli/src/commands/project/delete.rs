//! `agents project delete`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::projects::{ActivePlanPolicy, DeletedProject};
use serde_json::json;

use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell, format_count};

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
        let force = if self.force {
            ActivePlanPolicy::Cancel
        } else {
            ActivePlanPolicy::Refuse
        };
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        self.confirm_deletion(&app, &name, context)?;
        let service = app.projects();
        let deleted = service.delete(name, force, app.actor());
        Ok(answer(&app.block_on(deleted)?))
    }

    /// Asks for confirmation on a terminal. Does not ask if the deletion would be refused anyway.
    fn confirm_deletion(
        &self,
        app: &AppContext<'_>,
        name: &NamespacedName,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        let active = app.block_on(app.projects().active_plans(name.clone()))?;
        let question = match active.len() {
            0 => format!("Delete project {name}?"),
            _ if !self.force => return Ok(()),
            number => format!(
                "Delete project {name} and cancel {}?",
                format_count(i64::try_from(number).unwrap_or(i64::MAX), "plan")
            ),
        };
        if self.yes {
            return Ok(());
        }
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => Err(
                CommandFailure::new(ExitCode::Decision, "nothing was deleted")
                    .because("not confirmed")
                    .hint(format!("agents project delete {name} --yes")),
            ),
        }
    }
}

fn answer(deleted: &DeletedProject) -> CommandAnswer {
    let DeletedProject {
        project,
        resources_unlinked: unlinked,
        plans_cancelled: cancelled,
    } = deleted;
    let json = json!({"deletion_summary": {
        "project": project,
        "resources_unlinked": unlinked,
        "plans_cancelled": cancelled,
    }});
    let listed = |texts: Vec<String>| -> ViewCell {
        if texts.is_empty() {
            "none".into()
        } else {
            texts.join(", ").into()
        }
    };
    let names = unlinked.iter().map(ToString::to_string).collect();
    let plans = cancelled.iter().map(|plan| plan.short()).collect();
    let view = OutputView::new().panel(
        "Deleted",
        [
            ("project", project.to_string().into()),
            ("resources unlinked", listed(names)),
            ("plans cancelled", listed(plans)),
        ],
    );
    let answer = CommandAnswer::new(json, view)
        .with_message(MessageLevel::Info, format!("project {project} deleted"));
    if unlinked.is_empty() {
        answer
    } else {
        answer.with_message(MessageLevel::Hint, "agents resource list")
    }
}
