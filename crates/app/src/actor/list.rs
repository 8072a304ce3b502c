//! `actor.list`

use cleveragents_api::actor::{
    ActorAdd, ActorCounts, ActorFilters, ActorList, ActorPage, ActorSummary,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::actors::RegisteredActor;
use cleveragents_ports::tools::Toolbox;

use super::fields;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;

impl Handler<ActorList> for App {
    async fn handle(
        &self,
        request: ActorList,
        _: &Caller,
    ) -> Result<Reply<ActorPage>, RequestError> {
        let pattern = request.pattern.as_deref().map(NamePattern::parse);
        let pattern = pattern.transpose()?;
        let mut all = self.services.actors().actors().await?;
        all.retain(|each| {
            let actor = each.actor();
            let is_type = |wanted| wanted == actor.kind.actor_type();
            request.actor_type.is_none_or(is_type)
                && pattern.as_ref().is_none_or(|it| it.matches(&actor.name))
        });
        let toolbox = self.services.adapters().toolbox()?;
        Ok(page_reply(&all, request, &*toolbox))
    }
}

fn page_reply(
    all: &[RegisteredActor],
    request: ActorList,
    toolbox: &dyn Toolbox,
) -> Reply<ActorPage> {
    let built_in = all.iter().filter(|each| is_built_in(each)).count();
    let summary = ActorCounts {
        total: all.len(),
        built_in,
        custom: all.len() - built_in,
    };
    let listed = all.iter().take(request.limit.unwrap_or(usize::MAX));
    let actors: Vec<ActorSummary> = listed.map(|each| actor_summary(each, toolbox)).collect();
    let said = match actors.len() {
        1 => "1 actor listed".to_owned(),
        number => format!("{number} actors listed"),
    };
    let are_only_built_in = summary.custom == 0 && actors.len() == summary.total;
    let reply = Reply::new(ActorPage {
        actors,
        filters: ActorFilters {
            actor_type: request.actor_type,
            pattern: request.pattern,
        },
        summary,
    });
    let reply = reply.info(said);
    if are_only_built_in {
        reply.hint(NextStep::fill_in::<ActorAdd>(&[("config", "FILE")]))
    } else {
        reply
    }
}

fn is_built_in(registered: &RegisteredActor) -> bool {
    matches!(registered, RegisteredActor::BuiltIn(_))
}

fn actor_summary(registered: &RegisteredActor, toolbox: &dyn Toolbox) -> ActorSummary {
    let actor = registered.actor();
    let model = fields::model(actor);
    ActorSummary {
        name: actor.name.clone(),
        provider: model.provider,
        model: model.model,
        default: None,
        is_unsafe: fields::is_unsafe(actor, toolbox),
        actor_type: actor.kind.actor_type(),
        built_in: is_built_in(registered),
        description: actor.description.clone(),
        steps: actor.steps().len(),
    }
}
