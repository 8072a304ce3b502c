//! `actor.remove`

use cleveragents_api::action::ActionList;
use cleveragents_api::actor::{ActorRemove, ActorRemoved, RemovedActor};
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::actors::ActorRemovalMode;

use crate::actor::actor_failure;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ActorRemove> for App {
    async fn handle(
        &self,
        request: ActorRemove,
        caller: &Caller,
    ) -> Result<Reply<ActorRemoved>, RequestError> {
        let name = request.name;
        let removal = if request.force {
            ActorRemovalMode::Forced
        } else {
            ActorRemovalMode::IfUnused
        };
        let actors = self.services.actors();
        let removed = actors.remove(name.clone(), removal, &caller.who).await;
        let (row, actions) = match removed {
            Ok(removed) => removed,
            Err(error) => return Err(actor_failure(&self.services, error, &name).await),
        };
        let still_used = match actions.len() {
            0 => None,
            1 => Some("1 action still used it".to_owned()),
            number => Some(format!("{number} actions still used it")),
        };
        let reply = Reply::new(ActorRemoved {
            actor_removed: RemovedActor {
                name,
                actor_type: row.actor.kind.actor_type(),
                hash: row.hash,
                version: row.version,
                config: row.actor,
                referenced_by_actions: actions,
                created: row.created_at,
                updated: row.updated_at,
            },
        });
        let reply = reply.info("Actor removed");
        Ok(match still_used {
            None => reply,
            Some(warning) => reply
                .warn(warning)
                .hint(NextStep::send(&ActionList::default())),
        })
    }
}
