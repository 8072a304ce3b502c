//! `agents completions`

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, OutputView};

/// Print a shell completion script
///
/// Source it, or save it in the completion folder of your shell.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents completions bash > ~/.local/share/bash-completion/completions/agents
  agents completions zsh > ~/.zfunc/_agents
  agents completions fish > ~/.config/fish/completions/agents.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "agents", &mut script);
        let script = String::from_utf8(script).map_err(|error| {
            CommandFailure::new(ExitCode::Error, "the completion script is not text")
                .caused_by(&error)
        })?;
        let data = json!({"shell": self.shell.to_string(), "script": script});
        Ok(CommandAnswer::new(data, OutputView::new().verbatim(script)))
    }
}
