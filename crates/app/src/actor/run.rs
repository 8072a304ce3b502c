//! `actor.run`

use cleveragents_api::actor::{
    ActorList, ActorResponse, ActorRun, ActorRunAnswer, ActorRunFacts, ActorRunUsage,
};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::{ActorKind, ActorType, LlmActor, NamespacedName};
use cleveragents_engine::actors::{Inquiry, InquiryError};
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_ports::models::{ModelError, ModelErrorKind};

use crate::actor::find_actor_by_name;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::services::Services;

impl Handler<ActorRun> for App {
    async fn handle(
        &self,
        request: ActorRun,
        _: &Caller,
    ) -> Result<Reply<ActorRunAnswer>, RequestError> {
        if request.prompt.trim().is_empty() {
            return Err(RequestError::usage("the prompt is empty").kind(FailureKind::NoPrompt));
        }
        let found = find_actor_by_name(&self.services, &request.name).await?;
        let actor = found.actor();
        let ActorKind::Llm(llm) = &actor.kind else {
            return Err(no_model_failure(&request.name));
        };
        let began = self.services.deps().clock.now();
        let inquiry = inquiry(&self.services)?;
        let answer = inquiry.prompt_model(&actor.name, llm, &request.prompt, &|_| {});
        let answer = answer.await.map_err(|error| match error {
            InquiryError::Model(error) => model_failure(&error, llm),
            InquiryError::Store(error) => error.into(),
        })?;
        let usage = answer.usage;
        let reply = Reply::new(ActorRunAnswer {
            actor_run: ActorRunFacts {
                actor: actor.name.clone(),
                actor_type: actor.kind.actor_type(),
                model: answer.model.to_string(),
                temperature: llm.options.temperature,
                skill: None,
            },
            response: ActorResponse {
                text: answer.text,
                finish: answer.finish,
            },
            usage: ActorRunUsage {
                tokens: usage.input_tokens + usage.output_tokens,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                duration_s: self.services.deps().clock.now().since(began).as_secs_f64(),
                cost: answer.usd,
                tool_calls: 0,
                attempts: answer.attempts,
            },
        });
        Ok(reply.info("Actor run completed"))
    }
}

/// Returns the service that sends prompts to models outside of any plan.
fn inquiry(services: &Services) -> Result<Inquiry, RequestError> {
    let (store, ids, _) = services.parts();
    Ok(Inquiry {
        store,
        models: services.models()?,
        secrets: services.secrets()?,
        retry: RetryPolicy::default(),
        ids,
    })
}

fn no_model_failure(name: &NamespacedName) -> RequestError {
    RequestError::usage(format!("{name} has no model"))
        .kind(FailureKind::NoModel)
        .because("only actors of type `llm` have a model")
        .hint(NextStep::send(&ActorList {
            actor_type: Some(ActorType::Llm),
            ..ActorList::default()
        }))
}

fn model_failure(error: &ModelError, llm: &LlmActor) -> RequestError {
    let code = match error.kind {
        ModelErrorKind::Unavailable => ExitClass::Usage,
        kind if kind.is_transient() => ExitClass::Temporary,
        _ => ExitClass::Error,
    };
    let failure = RequestError::new(code, error.to_string()).kind(FailureKind::Model);
    match &llm.model {
        Some(model) => failure.because(format!("the actor uses {model}")),
        None => failure
            .because("the actor uses the default model")
            .hint("agents config set model.default PROVIDER/MODEL"),
    }
    .hint("agents diagnostics")
}
