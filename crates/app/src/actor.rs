//! Handlers of actors, one file per verb.

mod add;
mod fields;
mod list;
mod remove;
mod run;
mod show;
mod validate;

use std::path::Path;

use cleveragents_api::{DefinitionText, FailureKind, NextStep};
use cleveragents_definitions::read_actor;
use cleveragents_domain::{Actor, NamespacedName};
use cleveragents_engine::actors::{ActorRegistryError, RegisteredActor};
use cleveragents_ports::{Entity, StoreError};

pub use add::read_actor_to_add;
pub use validate::validate_actor;

use crate::definition::parse;
use crate::failure::{RequestError, display_path, unknown_name_failure};
use crate::services::Services;

/// Returns the actor of this name. Fails with similar names if it does not exist.
pub(crate) async fn find_actor_by_name(
    services: &Services,
    name: &NamespacedName,
) -> Result<RegisteredActor, RequestError> {
    match services.actors().actor(name.clone()).await {
        Ok(found) => Ok(found),
        Err(error) => Err(actor_failure(services, error, name).await),
    }
}

/// Converts an error about the actor `name`; if the actor does not exist, adds similar names.
async fn actor_failure(
    services: &Services,
    error: ActorRegistryError,
    name: &NamespacedName,
) -> RequestError {
    match error {
        ActorRegistryError::Store(StoreError::NotFound {
            entity: Entity::Actor,
            ..
        }) => {
            let all = services.actors().actors().await.unwrap_or_default();
            let known: Vec<NamespacedName> = all
                .into_iter()
                .map(|each| each.actor().name.clone())
                .collect();
            unknown_name_failure(Entity::Actor, name, &known)
        }
        other => other.into(),
    }
}

/// Parses the definition of an actor; `hint` is added to the failure for an invalid one.
/// `script_problem` returns why a script cannot be read; its content is checked when the model is
/// opened.
fn read(
    text: &DefinitionText,
    hint: NextStep,
    script_problem: impl Fn(&Path) -> Option<String>,
) -> Result<Actor, RequestError> {
    let actor = parse(text, read_actor).map_err(|errors| RequestError::from(errors).hint(hint))?;
    let script = fields::script(&actor).map(Path::new);
    let problem = script.and_then(|script| Some((script, script_problem(script)?)));
    match problem {
        Some((script, reason)) => Err(script_failure(&text.name, script, &reason)),
        None => Ok(actor),
    }
}

fn script_failure(file: &str, script: &Path, reason: &str) -> RequestError {
    let script = display_path(script);
    RequestError::usage(format!("{file}: the script of the model cannot be read"))
        .kind(FailureKind::Script)
        .because(format!("{script}: {reason}"))
        .hint("write `model` as the script's path, seen from the actor's file")
        .with_facts(|facts| facts.script = Some(script))
}
