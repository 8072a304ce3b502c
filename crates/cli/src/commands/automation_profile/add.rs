//! `agents automation-profile add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_definitions::read_profile;
use cleveragents_domain::ProfileName;
use cleveragents_ports::StoreError;

use super::view;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::{CommandFailure, ExitCode, display_path};
use crate::output::{CommandAnswer, MessageLevel};

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
        let read = file.parse_with(context.environment, read_profile);
        let profile = read.map_err(|errors| {
            CommandFailure::from(errors).hint("agents automation-profile add --help")
        })?;
        if matches!(profile.name, ProfileName::BuiltIn(_)) {
            return Err(built_in_failure(&profile.name));
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let profiles = app.profiles();
        let put = if self.update {
            app.block_on(profiles.update(profile, app.actor()))
        } else {
            app.block_on(profiles.add(profile, app.actor()))
        };
        let row = put.map_err(|error| self.add_failure(error))?;
        let said = match row.version {
            1 => "Automation profile added",
            _ => "Automation profile updated",
        };
        let name = row.profile.name.to_string();
        let mut data = view::data(&row.profile);
        data["version"] = row.version.into();
        let use_it = format!("agents plan use ACTION PROJECT --automation-profile {name}");
        Ok(CommandAnswer::new(data, view::panels(said, &row.profile))
            .with_message(MessageLevel::Info, said)
            .with_message(
                MessageLevel::Hint,
                format!("agents automation-profile show {name}"),
            )
            .with_message(MessageLevel::Hint, use_it))
    }

    fn add_failure(&self, error: StoreError) -> CommandFailure {
        let StoreError::Taken { name, .. } = error else {
            return error.into();
        };
        let what = format!("the automation profile {name} already exists");
        let file = display_path(&self.config);
        CommandFailure::new(ExitCode::Conflict, what)
            .kind("taken")
            .because("use --update to replace it")
            .hint(format!(
                "agents automation-profile add --config {file} --update"
            ))
            .hint(format!("agents automation-profile show {name}"))
    }
}

fn built_in_failure(name: &ProfileName) -> CommandFailure {
    CommandFailure::new(ExitCode::Conflict, format!("{name} is a built-in profile"))
        .kind("taken")
        .because("the built-in profiles cannot be added or replaced")
        .hint("choose another name")
        .hint(format!("agents automation-profile show {name}"))
}
