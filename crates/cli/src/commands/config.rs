//! `agents config`: settings.

mod get;
mod list;
mod set;
mod unset;

use clap::Subcommand;
use serde::Serialize;

use super::CommandContext;
use crate::failure::{CommandFailure, FailureKind, excerpt};
use crate::output::{CommandAnswer, Tone, ViewCell};
use crate::settings::file::SettingsOwner;
use crate::settings::registry::UnknownKey;
use crate::settings::resolve::SettingCandidate;
use crate::settings::{Key, Locations, ResolvedSetting, SettingSource, SettingValue};

/// Show and change settings
///
/// The first source that has a setting wins: a flag (--set, --format), a CLEVERAGENTS_* variable,
/// the project's .agents/config.toml, your config.toml, the default.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents config list
  agents config get plan.concurrency --verbose
  agents config set plan.concurrency 8
  agents config unset plan.concurrency")]
pub enum ConfigCommand {
    Get(get::ConfigGetArgs),
    Set(set::ConfigSetArgs),
    List(list::ConfigListArgs),
    Unset(unset::ConfigUnsetArgs),
}

impl ConfigCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Get(command) => command.run(context),
            Self::Set(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Unset(command) => command.run(context),
        }
    }
}

/// Parses the name of a setting. Fails with the most similar name.
fn parse_key(name: &str) -> Result<Key, CommandFailure> {
    Key::from_name(name).map_err(|error| unknown_key_failure(&error))
}

fn unknown_key_failure(error: &UnknownKey) -> CommandFailure {
    let failure = CommandFailure::usage(format!("`{}` is not a setting", excerpt(&error.name)))
        .kind(FailureKind::UnknownSetting);
    match error.nearest {
        Some(nearest) => failure
            .because(format!("the nearest name is `{nearest}`"))
            .hint(format!("agents config get {nearest}"))
            .hint("agents config list"),
        None => failure
            .because("no setting has a similar name")
            .hint("agents config list"),
    }
}

/// Returns the file that a change is written to.
fn target_file(
    locations: &Locations,
    project: bool,
) -> Result<(std::path::PathBuf, SettingsOwner), CommandFailure> {
    if !project {
        return Ok((locations.config_file.clone(), SettingsOwner::User));
    }
    let existing = locations.project_file.clone();
    existing
        .or_else(|| locations.new_project_file.clone())
        .map(|path| (path, SettingsOwner::Project))
        .ok_or_else(|| {
            CommandFailure::usage("there is no project here")
                .because("the working directory does not exist")
                .hint("cd into the project")
        })
}

/// Returns a value for people; an unset one is displayed as such.
fn value_cell(resolved: &ResolvedSetting, candidate: Option<&SettingCandidate>) -> ViewCell {
    match candidate {
        Some(candidate) => {
            ViewCell::new(resolved.redacted_value(candidate).to_string(), Tone::Strong)
        }
        None => ViewCell::new("(not set)", Tone::Faint),
    }
}

/// A setting with its effective value and where that comes from.
#[derive(Debug, Serialize)]
struct SettingAnswer {
    key: &'static str,
    value: Option<SettingValue>,
    source: Option<SettingSource>,
    origin: Option<String>,
}

impl From<&ResolvedSetting> for SettingAnswer {
    fn from(resolved: &ResolvedSetting) -> Self {
        let winner = resolved.winner();
        Self {
            key: resolved.key.name(),
            value: winner.map(|winner| resolved.redacted_value(winner)),
            source: winner.map(|winner| winner.source),
            origin: winner.and_then(|winner| winner.origin.clone()),
        }
    }
}
