//! `agents action archive`

use clap::Args;
use cleveragents_domain::NamespacedName;
use serde_json::json;

use super::{is_missing, local_names, unknown};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Level, View};

/// Take an action out of use
///
/// No plan can be made of it any more; plans that were go on. `create --update` with its file
/// brings it back.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action archive local/code-coverage")]
pub struct Archive {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl Archive {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let lifecycle = wired.lifecycle();
        let archived = wired.wait(lifecycle.archive_action(self.name.clone(), wired.actor()));
        if is_missing(&archived) {
            return Err(unknown(&self.name, &local_names(context), &wired));
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
            Answer::new(data, View::new().panel("Action archived", rows))
                .say(Level::Info, "Action archived")
                .say(Level::Hint, format!("agents action show {name}")),
        )
    }
}
