//! `agents action create`

use std::path::PathBuf;

use clap::Args;
use cleveragents_domain::Action;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use super::view::ActionView;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::{CommandFailure, ExitCode, display_path};
use crate::output::{CommandAnswer, MessageLevel};

/// Register an action from its YAML file
///
/// Fails if the name is already registered, also with the same content; --update replaces it.
/// Existing plans keep the version they were created with. ${VAR} in the file is replaced from the
/// environment now, not when the action is used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action create --config coverage.yaml
  agents action create --config coverage.yaml --update
  agents action create --config - < coverage.yaml")]
pub struct ActionCreateArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace an action of the same name
    #[arg(long)]
    update: bool,
}

impl ActionCreateArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let draft = file.action(context.environment).map_err(|errors| {
            CommandFailure::from(errors).hint(format!(
                "agents action validate {}",
                display_path(&self.config)
            ))
        })?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let lifecycle = app.lifecycle();
        let put = if self.update {
            app.block_on(lifecycle.update_action(draft, app.actor()))
        } else {
            app.block_on(lifecycle.create_action(draft, app.actor()))
        };
        let action = put.map_err(|error| self.create_failure(error))?;
        let (_, uses) = app.block_on(lifecycle.actions())?;
        let plans = uses.get(&action.id).copied().unwrap_or_default();
        Ok(answer(&action, plans))
    }

    /// Adds the command that replaces the existing action to the failure for a taken name.
    fn create_failure(&self, error: LifecycleError) -> CommandFailure {
        match error {
            LifecycleError::Store(StoreError::Taken { name, holder, .. }) => {
                let what = format!("the action {name} is already registered");
                CommandFailure::new(ExitCode::Conflict, what)
                    .kind("taken")
                    .because("use --update to replace it")
                    .hint(format!(
                        "agents action create --config {} --update",
                        display_path(&self.config)
                    ))
                    .hint(format!("agents action show {name}"))
                    .with("holder", holder.into())
            }
            other => other.into(),
        }
    }
}

fn answer(action: &Action, plans: u64) -> CommandAnswer {
    let said = match action.version {
        1 => "Action created",
        _ => "Action updated",
    };
    let shown = ActionView::from_registered(action, plans);
    CommandAnswer::new(shown.data(), shown.panels(said))
        .with_message(MessageLevel::Info, said)
        .with_message(MessageLevel::Hint, shown.use_command())
}
