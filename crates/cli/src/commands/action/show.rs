//! `agents action show`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_ports::PlanFilter;

use super::view::ActionView;
use super::{is_missing, local_action_names, unknown_action_failure};
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::local_actions::{self, ActionSource};
use crate::output::{CommandAnswer, MessageLevel};

/// Show an action: its actors, arguments, rules, and the command that uses it
///
/// An action that is not registered is read from the .agents/actions folder of the current project.
/// A registered action takes precedence over a file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action show local/code-coverage
  agents action show code-coverage --format json")]
pub struct ActionShowArgs {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl ActionShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let folders = local_actions::default_folders(context.environment);
        let chosen = local_actions::choose(&self.name, &folders, || {
            let found = app.block_on(app.lifecycle().action(self.name.clone()));
            if is_missing(&found) {
                Ok(None)
            } else {
                Ok(Some(found?))
            }
        })?;
        let (shown, shadowed) = match chosen {
            Some(ActionSource::Registered { action, shadowed }) => {
                let (_, uses) = app.block_on(app.lifecycle().actions())?;
                let plans = uses.get(&action.id).copied().unwrap_or_default();
                (ActionView::from_registered(&action, plans), shadowed)
            }
            Some(ActionSource::File(local)) => {
                let plans = count_plans(&self.name, &app)?;
                (ActionView::from_local(*local, plans), None)
            }
            None => {
                return Err(unknown_action_failure(
                    &self.name,
                    &local_action_names(context),
                    &app,
                ));
            }
        };
        let answer = CommandAnswer::new(shown.data(), shown.panels("Action"))
            .with_message(MessageLevel::Hint, shown.use_command());
        Ok(match shadowed {
            Some(file) => answer.with_message(
                MessageLevel::Warn,
                local_actions::shadowed_warning(&self.name, &file),
            ),
            None => answer,
        })
    }
}

/// Counts the plans of an unregistered action, for which the store keeps no counter.
pub(super) fn count_plans(
    name: &NamespacedName,
    app: &AppContext<'_>,
) -> Result<u64, CommandFailure> {
    let filter = PlanFilter {
        action: Some(name.clone()),
        limit: Some(1),
        ..PlanFilter::default()
    };
    Ok(app.block_on(app.lifecycle().list_plans(filter))?.total)
}
