//! `actor.show`

use cleveragents_api::Reply;
use cleveragents_api::actor::{ActorAccess, ActorDetails, ActorInUse, ActorShow, ActorUsage};
use cleveragents_domain::NamespacedName;
use cleveragents_engine::actors::RegisteredActor;
use cleveragents_ports::tools::Toolbox;

use super::fields;
use crate::actor::actor_failure;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ActorShow> for App {
    async fn handle(
        &self,
        request: ActorShow,
        _: &Caller,
    ) -> Result<Reply<ActorInUse>, RequestError> {
        let name = request.name;
        let found = self.services.actors().actor_in_use(name.clone()).await;
        let (registered, actions) = match found {
            Ok(found) => found,
            Err(error) => return Err(actor_failure(&self.services, error, &name).await),
        };
        let toolbox = self.services.adapters().toolbox()?;
        Ok(Reply::new(details(registered, actions, &*toolbox)))
    }
}

fn details(
    registered: RegisteredActor,
    actions: Vec<NamespacedName>,
    toolbox: &dyn Toolbox,
) -> ActorInUse {
    let (actor, row) = match registered {
        RegisteredActor::Added(row) => (row.actor.clone(), Some(row)),
        RegisteredActor::BuiltIn(actor) => (actor, None),
    };
    let model = fields::model(&actor);
    let is_unsafe = fields::is_unsafe(&actor, toolbox);
    ActorInUse {
        options: model.options,
        system_prompt: fields::llm(&actor).and_then(|llm| llm.system_prompt.clone()),
        graph_structure: None,
        steps: actor.steps().to_vec(),
        tools: model.tools,
        skills: model.skills,
        access: ActorAccess {
            is_unsafe,
            filesystem: None,
            network: None,
        },
        usage: ActorUsage {
            referenced_by_actions: actions,
            active_in_sessions: None,
            total_runs: None,
            avg_cost_per_run: None,
        },
        actor_details: ActorDetails {
            name: actor.name.clone(),
            description: actor.description.clone(),
            provider: model.provider,
            model: model.model,
            default: None,
            builtin: row.is_none(),
            is_unsafe,
            actor_type: actor.kind.actor_type(),
            created: row.as_ref().map(|row| row.created_at),
            updated: row.as_ref().map(|row| row.updated_at),
            version: row.as_ref().map(|row| row.version),
            config: actor,
            config_hash: row.map(|row| row.hash),
        },
    }
}
