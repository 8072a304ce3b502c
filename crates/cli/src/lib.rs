//! The `agents` program: arguments, settings, output and the construction of all services.
//!
//! Only this crate knows command-line flags, settings files, environment variables and terminals;
//! the crates below get plain values. Start reading at [`run`], then `commands` for the commands
//! and `output` for how answers are displayed.

pub mod argument_types;
pub mod arguments;
pub mod bootstrap;
pub mod commands;
pub mod confirmation;
pub mod consent;
pub mod definition_file;
pub mod disk;
pub mod environment;
pub mod failure;
pub mod files;
pub mod local_time;
pub mod logging;
pub mod names;
pub mod next_step;
pub mod output;
pub mod plan_lookup;
pub mod process;
pub mod progress;
pub mod reserve;
pub mod resource_directory;
mod session;
pub mod settings;
pub mod signals;
pub mod unfinished_applies;

pub use session::{run, run_with_watcher};

/// Returns the whole command tree, for documentation, completions and tests that walk it.
pub fn command() -> clap::Command {
    <arguments::CliArguments as clap::CommandFactory>::command()
}
