//! `actor.validate`

use std::path::Path;

use cleveragents_api::actor::{ActorAdd, ActorValidate, ValidActor};
use cleveragents_api::{NextStep, Reply};

use super::{fields, read};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ActorValidate> for App {
    async fn handle(
        &self,
        request: ActorValidate,
        _: &Caller,
    ) -> Result<Reply<ValidActor>, RequestError> {
        let adapters = self.services.adapters();
        validate_actor(&request, |path| adapters.script_problem(path))
    }
}

/// Checks a definition. Needs no database, so a front end can call it without an [`App`].
/// `script_problem` is [`Adapters::script_problem`](crate::Adapters::script_problem).
pub fn validate_actor(
    request: &ActorValidate,
    script_problem: impl Fn(&Path) -> Option<String>,
) -> Result<Reply<ValidActor>, RequestError> {
    let file = &request.config;
    let hint = "fix the file, then validate it again".into();
    let actor = read(file, hint, script_problem)?;
    let answer = ValidActor {
        valid: true,
        file: file.name.clone(),
        name: actor.name.clone(),
        actor_type: actor.kind.actor_type(),
        steps: actor.steps().len(),
        model: fields::model(&actor),
        config: actor,
        problems: Vec::new(),
    };
    let add = NextStep::fill_in::<ActorAdd>(&[("config", &file.argument)]);
    Ok(Reply::new(answer).info("The actor is valid").hint(add))
}
