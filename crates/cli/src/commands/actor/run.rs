//! `agents actor run`

use std::time::Instant;

use clap::Args;
use cleveragents_domain::{ActorKind, LlmActor, NamespacedName};
use cleveragents_engine::actors::Unanswered;
use serde_json::json;

use super::find;
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::names;
use crate::output::{Answer, Cell, Level, View};
use crate::progress::ProgressLine;

/// Ask an actor's model something, and show its answer
///
/// One question and one answer, outside any plan: no tool is offered and no file is touched. What
/// was asked and answered is in the journal of the system. Use it to see whether a model can be
/// reached and how its actor answers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor run builtin/coder \"What is a monad?\"
  agents actor run local/reviewer \"Say hello\" --format json")]
pub struct Run {
    /// The name of the actor, of the type `llm`
    #[arg(value_name = "NAME")]
    name: String,

    /// What to ask
    #[arg(value_name = "PROMPT")]
    prompt: String,
}

impl Run {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("actor", &self.name)?;
        if self.prompt.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty").kind("no_prompt"));
        }
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let found = find(&name, &wired)?;
        let actor = found.actor();
        let ActorKind::Llm(llm) = &actor.kind else {
            return Err(no_model_in(&name));
        };
        let began = Instant::now();
        let progress = ProgressLine::new("model", context.arguments, context.environment);
        progress.say("thinks");
        let reply = wired.wait(
            wired
                .inquiry()?
                .ask((&actor.name, llm), &self.prompt, &|_| {}),
        );
        let reply = reply.map_err(|error| match error {
            Unanswered::Model(error) => failed(&error, llm),
            Unanswered::Store(error) => error.into(),
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
        let view = View::new().verbatim(reply.text.clone()).panel(
            "Usage",
            [
                ("model", Cell::from(reply.model.to_string())),
                ("tokens read", reply.usage.input_tokens.to_string().into()),
                (
                    "tokens written",
                    reply.usage.output_tokens.to_string().into(),
                ),
            ],
        );
        Ok(Answer::new(data, view).say(Level::Info, "Actor run completed"))
    }
}

fn no_model_in(name: &NamespacedName) -> Failure {
    Failure::usage(format!("{name} has no model to ask"))
        .kind("no_model")
        .because("only actors of the type `llm` answer questions")
        .hint("agents actor list --type llm")
}

fn failed(error: &cleveragents_engine::ports::models::ModelError, llm: &LlmActor) -> Failure {
    use cleveragents_engine::ports::models::ModelErrorKind;
    let code = match error.kind {
        ModelErrorKind::Unavailable => ExitCode::Usage,
        kind if kind.is_transient() => ExitCode::Temporary,
        _ => ExitCode::Error,
    };
    let failure = Failure::new(code, error.to_string()).kind("model");
    match &llm.model {
        Some(model) => failure.because(format!("{model} was asked")),
        None => failure
            .because("the configured default model was asked")
            .hint("agents config set model.default PROVIDER/MODEL"),
    }
    .hint("agents diagnostics")
}
