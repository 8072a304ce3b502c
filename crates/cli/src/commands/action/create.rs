//! `agents action create`

use std::path::PathBuf;

use clap::Args;
use cleveragents_domain::Action;
use cleveragents_engine::StoreError;
use cleveragents_engine::lifecycle::LifecycleError;

use super::view::Shown;
use crate::commands::Context;
use crate::definition_file::DefinitionFile;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::output::{Answer, Level};

/// Register an action from its YAML file
///
/// A name that is registered already is refused, also with the same content; --update replaces
/// it. Plans made before keep what they were made with. ${VAR} in the file is filled in from the
/// environment now, not when the action is used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action create --config coverage.yaml
  agents action create --config coverage.yaml --update
  agents action create --config - < coverage.yaml")]
pub struct Create {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace an action of the same name
    #[arg(long)]
    update: bool,
}

impl Create {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let draft = file.action(context.environment).map_err(|errors| {
            Failure::from(errors).hint(format!(
                "agents action validate {}",
                shown_path(&self.config)
            ))
        })?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let lifecycle = wired.lifecycle();
        let put = match self.update {
            true => wired.wait(lifecycle.update_action(draft, wired.actor())),
            false => wired.wait(lifecycle.create_action(draft, wired.actor())),
        };
        let action = put.map_err(|error| self.refused(error))?;
        let (_, uses) = wired.wait(lifecycle.actions())?;
        let plans = uses.get(&action.id).copied().unwrap_or_default();
        Ok(answer(&action, plans))
    }

    /// A taken name is answered with the command that replaces what has it.
    fn refused(&self, error: LifecycleError) -> Failure {
        match error {
            LifecycleError::Store(StoreError::Taken { name, holder, .. }) => {
                let what = format!("the action {name} is registered already");
                Failure::new(ExitCode::Conflict, what)
                    .kind("taken")
                    .because("an action is replaced only when that is asked for")
                    .hint(format!(
                        "agents action create --config {} --update",
                        shown_path(&self.config)
                    ))
                    .hint(format!("agents action show {name}"))
                    .with("holder", holder.into())
            }
            other => other.into(),
        }
    }
}

fn answer(action: &Action, plans: u64) -> Answer {
    let said = match action.version {
        1 => "Action created",
        _ => "Action updated",
    };
    let shown = Shown::registered(action, plans);
    Answer::new(shown.data(), shown.panels(said))
        .say(Level::Info, said)
        .say(Level::Hint, shown.use_command())
}
