//! `agents plan delete`

use clap::Args;
use serde_json::{Value, json};

use super::view::{confirm_or_fail, find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Delete a finished plan
///
/// Deletes its decisions, errors, messages and rules. Its journal is kept, so that it can still be
/// verified; erase its payloads with `agents plan purge`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan delete 4k2m9x0q
  agents plan delete 4k2m9x0q --yes")]
pub struct PlanDeleteArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl PlanDeleteArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let plan = find(&app, &self.plan)?;
        let question = format!("Delete {} and everything but its journal?", plan.name);
        confirm_or_fail(&question, self.yes, context, "nothing was deleted")?;
        let id = plan.identity.plan_id;
        let deleted = app.block_on(app.lifecycle().delete(id, app.actor()))?;
        let mut data = plan_data(&deleted);
        data.insert("deleted".to_owned(), json!(true));
        let view = OutputView::new().panel(
            "Deleted",
            [
                ("plan", ViewCell::new(id.to_string(), Tone::Strong)),
                ("name", deleted.name.to_string().into()),
                ("state", position_cell(deleted.position)),
            ],
        );
        Ok(CommandAnswer::new(Value::Object(data), view)
            .with_message(MessageLevel::Info, "Plan deleted; its journal is kept")
            .with_message(MessageLevel::Hint, format!("agents plan verify {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan purge {id}")))
    }
}
