//! `agents automation-profile add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_domain::ProfileName;
use cleveragents_engine::StoreError;
use cleveragents_engine::definitions::read_profile;

use super::view;
use crate::commands::Context;
use crate::definition_file::DefinitionFile;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::output::{Answer, Level};

/// Add an automation profile of your own from its YAML file
///
/// A name that is taken is refused; --update replaces the profile. The built-in ones cannot be
/// replaced. Plans made before keep the profile they were made with.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile add --config night-shift.yaml
  agents automation-profile add --config night-shift.yaml --update
  agents automation-profile add --config - < night-shift.yaml

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/automation-profile.schema.json:
  # yaml-language-server: $schema=automation-profile.schema.json")]
pub struct Add {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace a profile of the same name
    #[arg(long)]
    update: bool,
}

impl Add {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let read = file.with(context.environment, read_profile);
        let profile = read
            .map_err(|errors| Failure::from(errors).hint("agents automation-profile add --help"))?;
        if matches!(profile.name, ProfileName::BuiltIn(_)) {
            return Err(built_in(&profile.name));
        }
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let profiles = wired.profiles();
        let put = match self.update {
            true => wired.wait(profiles.update(profile, wired.actor())),
            false => wired.wait(profiles.add(profile, wired.actor())),
        };
        let row = put.map_err(|error| self.refused(error))?;
        let said = match row.version {
            1 => "Automation profile added",
            _ => "Automation profile updated",
        };
        let name = row.profile.name.to_string();
        let mut data = view::data(&row.profile);
        data["version"] = row.version.into();
        let use_it = format!("agents plan use ACTION PROJECT --automation-profile {name}");
        Ok(Answer::new(data, view::panels(said, &row.profile))
            .say(Level::Info, said)
            .say(
                Level::Hint,
                format!("agents automation-profile show {name}"),
            )
            .say(Level::Hint, use_it))
    }

    fn refused(&self, error: StoreError) -> Failure {
        let StoreError::Taken { name, .. } = error else {
            return error.into();
        };
        let what = format!("the automation profile {name} is there already");
        let file = shown_path(&self.config);
        Failure::new(ExitCode::Conflict, what)
            .kind("taken")
            .because("a profile is replaced only when that is asked for")
            .hint(format!(
                "agents automation-profile add --config {file} --update"
            ))
            .hint(format!("agents automation-profile show {name}"))
    }
}

fn built_in(name: &ProfileName) -> Failure {
    Failure::new(ExitCode::Conflict, format!("{name} is a built-in profile"))
        .kind("taken")
        .because("the built-in profiles cannot be added or replaced")
        .hint("give yours another name")
        .hint(format!("agents automation-profile show {name}"))
}
