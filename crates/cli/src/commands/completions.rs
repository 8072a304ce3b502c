//! `agents completions`

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, View};

/// Print a completion script for a shell
///
/// Source it, or put it where the shell looks for completions.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents completions bash > ~/.local/share/bash-completion/completions/agents
  agents completions zsh > ~/.zfunc/_agents
  agents completions fish > ~/.config/fish/completions/agents.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Result<Answer, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "agents", &mut script);
        let script = String::from_utf8(script).map_err(|error| {
            Failure::new(ExitCode::Error, "the completion script is not text").caused_by(&error)
        })?;
        let data = json!({"shell": self.shell.to_string(), "script": script});
        Ok(Answer::new(data, View::new().verbatim(script)))
    }
}
