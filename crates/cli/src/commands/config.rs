//! `agents config`: settings.

mod get;
mod list;
mod set;
mod unset;

use clap::Subcommand;
use serde_json::Value;

use super::Context;
use crate::failure::{Failure, excerpt};
use crate::output::{Answer, Cell, Tone};
use crate::settings::file::Owner;
use crate::settings::registry::UnknownKey;
use crate::settings::resolve::Candidate;
use crate::settings::{Key, Locations, Resolved};

/// Read and change settings
///
/// A setting comes from the first source that has it: a flag (--set, --format), a CLEVERAGENTS_*
/// variable, the project's .agents/config.toml, your config.toml, the default.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents config list
  agents config get plan.concurrency --verbose
  agents config set plan.concurrency 8
  agents config unset plan.concurrency")]
pub enum ConfigCommand {
    Get(get::Get),
    Set(set::Set),
    List(list::List),
    Unset(unset::Unset),
}

impl ConfigCommand {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Get(command) => command.run(context),
            Self::Set(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Unset(command) => command.run(context),
        }
    }
}

/// The setting of that name, or a failure that names the nearest.
fn key(name: &str) -> Result<Key, Failure> {
    Key::named(name).map_err(|error| unknown(&error))
}

fn unknown(error: &UnknownKey) -> Failure {
    let failure = Failure::usage(format!("`{}` is not a setting", excerpt(&error.name)))
        .kind("unknown_setting");
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

/// The file a change goes to.
fn target(locations: &Locations, project: bool) -> Result<(std::path::PathBuf, Owner), Failure> {
    if !project {
        return Ok((locations.config_file.clone(), Owner::User));
    }
    let existing = locations.project_file.clone();
    existing
        .or_else(|| locations.new_project_file.clone())
        .map(|path| (path, Owner::Project))
        .ok_or_else(|| {
            Failure::usage("there is no project here")
                .because("the working directory does not exist")
                .hint("cd into the project")
        })
}

/// A value for people; what is not set is shown as such.
fn shown(resolved: &Resolved, candidate: Option<&Candidate>) -> Cell {
    match candidate {
        Some(candidate) => Cell::new(resolved.shown(candidate).to_string(), Tone::Strong),
        None => Cell::new("(not set)", Tone::Faint),
    }
}

/// A value for programs.
fn value(resolved: &Resolved, candidate: Option<&Candidate>) -> Value {
    candidate.map_or(Value::Null, |one| resolved.shown(one).to_json())
}
