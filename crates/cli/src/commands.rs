//! What can be done, one file per command.
//!
//! To add a command: a file with an argument struct (its doc comment is the help, with
//! `after_long_help` examples) and a `run`, an arm in [`Command`] and in its two matches, and a
//! row in `tests/cli/cases.rs`.

mod completions;
mod config;
mod man;
mod version;

use clap::Subcommand;

use crate::arguments::GlobalArguments;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::Answer;
use crate::settings::{Locations, Settings};

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Version(version::Version),
    Completions(completions::Completions),
    Man(man::Man),
}

/// What has to be there before a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No file is read and nothing is created.
    Nothing,
    /// The settings are read.
    Settings,
}

/// What commands work with.
#[derive(Debug)]
pub struct Context<'a> {
    pub environment: &'a Environment,
    pub arguments: &'a GlobalArguments,
    /// A failure to read them stops only the commands that ask for them, so that
    /// `config set` and `config unset` can mend what is broken.
    pub settings: Result<Settings, Failure>,
}

impl Context<'_> {
    pub fn settings(&self) -> Result<&Settings, Failure> {
        self.settings.as_ref().map_err(Clone::clone)
    }

    pub fn locations(&self) -> Result<Locations, Failure> {
        Locations::find(self.arguments, self.environment)
    }
}

impl Command {
    pub fn needs(&self) -> Needs {
        match self {
            Self::Config(_) => Needs::Settings,
            Self::Version(_) | Self::Completions(_) | Self::Man(_) => Needs::Nothing,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Config(command) => command.run(context),
            Self::Version(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
