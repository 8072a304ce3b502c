//! `agents action archive`

use clap::Args;
use cleveragents_domain::NamespacedName;
use serde_json::json;

use super::{is_missing, local_action_names, unknown_action_failure};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Archive an action
///
/// An archived action cannot be used for new plans; existing plans are not affected. `create
/// --update` with its file makes it available again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action archive local/code-coverage")]
pub struct ActionArchiveArgs {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl ActionArchiveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let lifecycle = app.lifecycle();
        let archived = app.block_on(lifecycle.archive_action(self.name.clone(), app.actor()));
        if is_missing(&archived) {
            return Err(unknown_action_failure(
                &self.name,
                &local_action_names(context),
                &app,
            ));
        }
        let action = archived?;
        let name = action.name.to_string();
        let data = json!({
            "name": name,
            "id": action.id,
            "state": action.state,
            "updated_at": action.updated_at,
            "version": action.version,
        });
        let rows = [("name", name.clone()), ("state", action.state.to_string())];
        Ok(
            CommandAnswer::new(data, OutputView::new().panel("Action archived", rows))
                .with_message(MessageLevel::Info, "Action archived")
                .with_message(MessageLevel::Hint, format!("agents action show {name}")),
        )
    }
}
