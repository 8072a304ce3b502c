//! `agents actor run`

use std::time::Instant;

use clap::Args;
use cleveragents_domain::{ActorKind, LlmActor, NamespacedName};
use cleveragents_engine::actors::InquiryError;
use serde_json::json;

use super::find;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell};
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
        let name = names::parse_name("actor", &self.name)?;
        if self.prompt.trim().is_empty() {
            return Err(CommandFailure::usage("the prompt is empty").kind("no_prompt"));
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let found = find(&name, &app)?;
        let actor = found.actor();
        let ActorKind::Llm(llm) = &actor.kind else {
            return Err(no_model_failure(&name));
        };
        let began = Instant::now();
        let progress = ProgressLine::new("model", context.arguments, context.environment);
        progress.set_message("thinks");
        let reply = app.block_on(app.inquiry()?.prompt_model(
            (&actor.name, llm),
            &self.prompt,
            &|_| {},
        ));
        let reply = reply.map_err(|error| match error {
            InquiryError::Model(error) => model_failure(&error, llm),
            InquiryError::Store(error) => error.into(),
        })?;
        drop(progress);
        let data = json!({
            "actor_run": {
                "actor": actor.name,
                "type": actor.kind.actor_type(),
                "model": reply.model.to_string(),
                "temperature": llm.options.temperature,
                "skill": null,
            },
            "response": { "text": reply.text, "finish": reply.finish },
            "usage": {
                "tokens": reply.usage.input_tokens + reply.usage.output_tokens,
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
                "duration_s": began.elapsed().as_secs_f64(),
                "cost": reply.usd,
                "tool_calls": 0,
                "attempts": reply.attempts,
            },
        });
        let view = OutputView::new().verbatim(reply.text.clone()).panel(
            "Usage",
            [
                ("model", ViewCell::from(reply.model.to_string())),
                ("tokens read", reply.usage.input_tokens.to_string().into()),
                (
                    "tokens written",
                    reply.usage.output_tokens.to_string().into(),
                ),
            ],
        );
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, "Actor run completed"))
    }
}

fn no_model_failure(name: &NamespacedName) -> CommandFailure {
    CommandFailure::usage(format!("{name} has no model"))
        .kind("no_model")
        .because("only actors of type `llm` have a model")
        .hint("agents actor list --type llm")
}

fn model_failure(error: &cleveragents_ports::models::ModelError, llm: &LlmActor) -> CommandFailure {
    use cleveragents_ports::models::ModelErrorKind;
    let code = match error.kind {
        ModelErrorKind::Unavailable => ExitCode::Usage,
        kind if kind.is_transient() => ExitCode::Temporary,
        _ => ExitCode::Error,
    };
    let failure = CommandFailure::new(code, error.to_string()).kind("model");
    match &llm.model {
        Some(model) => failure.because(format!("the actor uses {model}")),
        None => failure
            .because("the actor uses the default model")
            .hint("agents config set model.default PROVIDER/MODEL"),
    }
    .hint("agents diagnostics")
}
