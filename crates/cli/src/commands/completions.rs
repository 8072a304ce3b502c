//! `agents completions`

use clap::Args;
use clap_complete::Shell;
use serde::Serialize;

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

#[derive(Debug, Serialize)]
struct CompletionScript {
    shell: String,
    script: String,
}

impl CompletionsArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "agents", &mut script);
        let script = String::from_utf8(script).map_err(|error| {
            CommandFailure::new(ExitCode::Error, "the completion script is not text")
                .caused_by(&error)
        })?;
        let view = OutputView::new().verbatim(script.as_str());
        let shell = self.shell.to_string();
        CommandAnswer::new(&CompletionScript { shell, script }, view)
    }
}
