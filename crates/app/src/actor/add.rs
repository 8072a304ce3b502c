//! `actor.add`

use std::path::Path;

use cleveragents_api::actor::{ActorAdd, ActorAdded, ActorShow, ActorValidate, ChangedActor};
use cleveragents_api::{FailureKind, NextStep, Reply};
use cleveragents_definitions::FORMAT_VERSION;
use cleveragents_domain::{Actor, NamespacedName};
use cleveragents_engine::actors::{ActorRegistryError, RegisteredActor, RegistryChange};
use cleveragents_ports::{ActorRow, StoreError};

use super::{fields, read};
use crate::app::{App, Caller, Handler};
use crate::definition::{change, duplicate_policy};
use crate::failure::{RequestError, name_taken_failure};
use crate::services::Services;

impl Handler<ActorAdd> for App {
    async fn handle(
        &self,
        request: ActorAdd,
        caller: &Caller,
    ) -> Result<Reply<ActorAdded>, RequestError> {
        let file = &request.config.argument;
        let adapters = self.services.adapters();
        let actor = read_actor_to_add(&request, |path| adapters.script_problem(path))?;
        let policy = duplicate_policy(request.update);
        let (row, registered) = match self.services.actors().add(actor, policy, &caller.who).await {
            Ok(added) => added,
            Err(error) => return Err(actor_add_failure(&self.services, error, file).await),
        };
        let said = match registered {
            RegistryChange::Added => "Actor added",
            RegistryChange::Updated => "Actor updated",
        };
        let show = NextStep::send(&ActorShow {
            name: row.actor.name.clone(),
        });
        let answer = ActorAdded {
            actor_added: changed_actor(row, registered),
        };
        Ok(Reply::new(answer).info(said).hint(show))
    }
}

/// Parses the definition to add. Needs no database, so a front end can refuse an invalid one before
/// it opens the database. `script_problem` is
/// [`Adapters::script_problem`](crate::Adapters::script_problem).
pub fn read_actor_to_add(
    request: &ActorAdd,
    script_problem: impl Fn(&Path) -> Option<String>,
) -> Result<Actor, RequestError> {
    let file = &request.config.argument;
    let validate = NextStep::fill_in::<ActorValidate>(&[("config", file)]);
    let actor = read(&request.config, validate, script_problem)?;
    check_name(request.name.as_ref(), &actor, file)?;
    Ok(actor)
}

/// Adds the request that replaces the existing actor to the failure for a taken name.
async fn actor_add_failure(
    services: &Services,
    error: ActorRegistryError,
    file: &str,
) -> RequestError {
    let ActorRegistryError::Store(StoreError::Taken { name, .. }) = &error else {
        return error.into();
    };
    let replace = NextStep::fill_in::<ActorAdd>(&[("config", file)]).with_flag("update");
    let Ok(taken) = name.parse::<NamespacedName>() else {
        return name_taken_failure("actor", name, None).hint(replace);
    };
    let since = match services.actors().actor(taken.clone()).await {
        Ok(RegisteredActor::Added(row)) => Some(row.created_at),
        _ => None,
    };
    name_taken_failure("actor", name, since)
        .hint(replace)
        .hint(NextStep::send(&ActorShow { name: taken }))
}

fn check_name(
    expected: Option<&NamespacedName>,
    actor: &Actor,
    file: &str,
) -> Result<(), RequestError> {
    let Some(expected) = expected.filter(|expected| **expected != actor.name) else {
        return Ok(());
    };
    let name = actor.name.to_string();
    let what = format!("the file defines {name}, not {expected}");
    let retry = NextStep::fill_in::<ActorAdd>(&[("config", file), ("name", &name)]);
    Err(RequestError::usage(what)
        .kind(FailureKind::OtherName)
        .because("NAME must match the name in the file")
        .hint(retry))
}

fn changed_actor(row: ActorRow, registered: RegistryChange) -> ChangedActor {
    ChangedActor {
        name: row.actor.name.clone(),
        actor_type: row.actor.kind.actor_type(),
        model: fields::model(&row.actor),
        config: row.actor,
        hash: row.hash,
        schema_version: FORMAT_VERSION,
        version: row.version,
        change: change(registered),
        created: row.created_at,
        updated: row.updated_at,
    }
}
