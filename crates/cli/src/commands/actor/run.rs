//! `agents actor run`

use clap::Args;
use cleveragents_api::actor::{ActorRun, ActorRunAnswer};

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, ViewCell};
use crate::progress::ProgressLine;

/// Send a prompt to an actor's model and show its answer
///
/// One prompt and one answer, outside any plan: no tool is offered and no file is changed. Prompt
/// and answer are recorded in the system journal. Use it to check that a model can be reached and
/// how its actor answers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor run builtin/coder \"What is a monad?\"
  agents actor run local/reviewer \"Say hello\" --format json")]
pub struct ActorRunArgs {
    /// The name of the actor, of the type `llm`
    #[arg(value_name = "NAME")]
    name: String,

    /// The prompt
    #[arg(value_name = "PROMPT")]
    prompt: String,
}

impl ActorRunArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let request = ActorRun {
            name: names::parse_name("actor", &self.name)?,
            prompt: self.prompt.clone(),
        };
        let progress = ProgressLine::new("model", context.arguments, context.environment);
        progress.set_message("waiting for the answer");
        let reply = context.call(request)?;
        drop(progress);
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(answer: &ActorRunAnswer) -> OutputView {
    let usage = &answer.usage;
    OutputView::new()
        .verbatim(answer.response.text.clone())
        .panel(
            "Usage",
            [
                ("model", ViewCell::from(answer.actor_run.model.clone())),
                ("tokens read", usage.input_tokens.to_string().into()),
                ("tokens written", usage.output_tokens.to_string().into()),
            ],
        )
}
