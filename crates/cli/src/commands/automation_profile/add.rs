//! `agents automation-profile add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::automation_profile::AutomationProfileAdd;
use cleveragents_app::read_profile_to_add;

use super::view;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Add an automation profile from its YAML file
///
/// Fails if the name is taken; --update replaces the profile. The built-in profiles cannot be
/// replaced. Existing plans keep the profile they were created with.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile add --config night-shift.yaml
  agents automation-profile add --config night-shift.yaml --update
  agents automation-profile add --config - < night-shift.yaml

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/automation-profile.schema.json:
  # yaml-language-server: $schema=automation-profile.schema.json")]
pub struct AutomationProfileAddArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace a profile of the same name
    #[arg(long)]
    update: bool,
}

impl AutomationProfileAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let request = AutomationProfileAdd {
            config: file.into_text(context.environment),
            update: self.update,
        };
        // Before the call, which creates the data directory.
        read_profile_to_add(&request)?;
        let reply = context.call(request)?;
        CommandAnswer::from_reply(reply, |added| {
            let title = match added.version {
                1 => "Automation profile added",
                _ => "Automation profile updated",
            };
            view::panels(title, &added.profile)
        })
    }
}
