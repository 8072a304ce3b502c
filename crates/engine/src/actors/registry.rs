//! Actors that users add to the built-in ones. A change and its event are one commit (law 2).
//! Nothing is cached.

use std::sync::Arc;

use cleveragents_domain::actor::{ActorError, model_actors};
use cleveragents_domain::event::payloads::{
    ActorAdded, ActorDefinition, ActorRemoved, ActorUpdated,
};
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{
    Action, ActionState, Actor, BuiltInActor, EventPayload, NamespacedName, StreamId,
};
use serde::{Deserialize, Serialize};

use crate::journal::new_event;
use crate::lifecycle::retry_on_conflict;
use cleveragents_ports::{ActorRow, Ids, StoreError, StoreHandle, StoreOperation, Transaction};

#[derive(Debug, Clone, thiserror::Error)]
pub enum ActorRegistryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Invalid(#[from] ActorError),
    #[error("the actor `{name}` is built in and cannot be removed")]
    BuiltIn { name: NamespacedName },
    #[error("the actor `{name}` is built in: it represents a configured model")]
    ReservedForModel { name: NamespacedName },
    #[error("the actor `{name}` is named by {}", list(.actions))]
    InUse {
        name: NamespacedName,
        actions: Vec<NamespacedName>,
    },
}

fn list(actions: &[NamespacedName]) -> String {
    let names: Vec<String> = actions.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [one] => format!("the action {one}"),
        several => format!("the actions {}", several.join(", ")),
    }
}

type Result<T, E = ActorRegistryError> = std::result::Result<T, E>;

/// Behaviour if the name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicatePolicy {
    Refuse,
    Replace,
}

/// Outcome of adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryChange {
    Added,
    Updated,
}

impl RegistryChange {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
        }
    }
}

/// Whether a removal checks that the actor is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorRemovalMode {
    /// Fails if an action names it.
    IfUnused,
    Forced,
}

/// An actor and its origin.
#[derive(Debug, Clone, PartialEq)]
pub enum RegisteredActor {
    BuiltIn(Actor),
    Added(ActorRow),
}

impl RegisteredActor {
    pub fn actor(&self) -> &Actor {
        match self {
            Self::BuiltIn(actor) => actor,
            Self::Added(row) => &row.actor,
        }
    }
}

/// Service for actors. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct ActorRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    /// One actor per configured model; never stored.
    models: Arc<[Actor]>,
}

impl ActorRegistry {
    /// Creates a registry without models; see [`Self::with_models`].
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        let models = Arc::from([]);
        Self { store, ids, models }
    }

    /// Returns the registry with these models; each becomes a built-in actor. An actor that was
    /// added under such a name before the model was configured keeps the name.
    #[must_use]
    pub fn with_models(self, models: &[ModelChoice]) -> Self {
        Self {
            models: model_actors(models).into(),
            ..self
        }
    }

    /// Adds an actor, or replaces the one of the same name if requested. Of several concurrent adds
    /// of one name one succeeds; the others fail with `Taken`, even with identical content.
    pub async fn add(
        &self,
        actor: Actor,
        update: DuplicatePolicy,
        by: &str,
    ) -> Result<(ActorRow, RegistryChange)> {
        actor.validate()?;
        let is_model = self.model_actor(&actor.name).is_some();
        let by = by.to_owned();
        self.store
            .write(self.operation("actor.add"), move |tx| {
                if is_model && !is_stored(tx, &actor.name)? {
                    let name = actor.name.clone();
                    return Err(ActorRegistryError::ReservedForModel { name });
                }
                let new = ActorRow::new(actor.clone(), tx.now()?)?;
                let (row, change) = match update {
                    DuplicatePolicy::Refuse => {
                        tx.insert_actor(&new)?;
                        (new, RegistryChange::Added)
                    }
                    DuplicatePolicy::Replace => retry_on_conflict(tx, |tx| upsert_actor(tx, &new))?,
                };
                record_change(tx, &row, change, &by)?;
                Ok((row, change))
            })
            .await
    }

    /// Returns the actor of that name, built-in or added.
    pub async fn actor(&self, name: NamespacedName) -> Result<RegisteredActor> {
        let model_actor = self.model_actor(&name).cloned();
        let found = self
            .store
            .read(move |tx| find_actor(tx, &name, model_actor.as_ref()));
        Ok(found.await?)
    }

    /// Returns the actor of that name, and the actions that name it.
    pub async fn actor_in_use(
        &self,
        name: NamespacedName,
    ) -> Result<(RegisteredActor, Vec<NamespacedName>)> {
        let model_actor = self.model_actor(&name).cloned();
        self.store
            .read(move |tx| {
                let found = find_actor(tx, &name, model_actor.as_ref())?;
                Ok((found, actions_naming(tx, &name)?))
            })
            .await
    }

    /// Returns all actors, ordered by name.
    pub async fn actors(&self) -> Result<Vec<RegisteredActor>> {
        let added: Result<_, StoreError> = self.store.read(|tx| tx.actors()).await;
        let built_in = BuiltInActor::ALL.iter().map(|each| each.actor());
        let mut all: Vec<RegisteredActor> = built_in.map(RegisteredActor::BuiltIn).collect();
        let added: Vec<ActorRow> = added?;
        let is_free = |actor: &&Actor| added.iter().all(|row| row.actor.name != actor.name);
        let of_models = self.models.iter().filter(is_free).cloned();
        all.extend(of_models.map(RegisteredActor::BuiltIn));
        all.extend(added.into_iter().map(RegisteredActor::Added));
        all.sort_by_key(|registered| registered.actor().name.to_string());
        Ok(all)
    }

    /// Removes an actor. Fails with the actions that name it, unless forced. The actions are read
    /// in the same transaction.
    pub async fn remove(
        &self,
        name: NamespacedName,
        removal: ActorRemovalMode,
        by: &str,
    ) -> Result<(ActorRow, Vec<NamespacedName>)> {
        if BuiltInActor::from_name(&name).is_some() {
            return Err(ActorRegistryError::BuiltIn { name });
        }
        let is_model = self.model_actor(&name).is_some();
        let by = by.to_owned();
        self.store
            .write(self.operation("actor.remove"), move |tx| {
                if is_model && !is_stored(tx, &name)? {
                    let name = name.clone();
                    return Err(ActorRegistryError::BuiltIn { name });
                }
                let actions = actions_naming(tx, &name)?;
                // Report a missing actor before the actions that name it.
                tx.actor(&name)?;
                if removal == ActorRemovalMode::IfUnused && !actions.is_empty() {
                    let name = name.clone();
                    return Err(ActorRegistryError::InUse { name, actions });
                }
                let row = retry_on_conflict(tx, |tx| {
                    let row = tx.actor(&name)?;
                    tx.delete_actor(&row)?;
                    Ok(row)
                })?;
                let record = ActorRemoved {
                    name: row.actor.name.clone(),
                    hash: row.hash.clone(),
                    version: row.version,
                };
                append_event(tx, &record, &by)?;
                Ok((row, actions))
            })
            .await
    }

    fn model_actor(&self, name: &NamespacedName) -> Option<&Actor> {
        self.models.iter().find(|actor| actor.name == *name)
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// An added actor takes precedence over the model of that name.
fn find_actor(
    tx: &mut dyn Transaction,
    name: &NamespacedName,
    model_actor: Option<&Actor>,
) -> Result<RegisteredActor, StoreError> {
    if let Some(built_in) = BuiltInActor::from_name(name) {
        return Ok(RegisteredActor::BuiltIn(built_in.actor()));
    }
    match (tx.actor(name), model_actor) {
        (Err(StoreError::NotFound { .. }), Some(actor)) => {
            Ok(RegisteredActor::BuiltIn(actor.clone()))
        }
        (found, _) => found.map(RegisteredActor::Added),
    }
}

fn is_stored(tx: &mut dyn Transaction, name: &NamespacedName) -> Result<bool, StoreError> {
    match tx.actor(name) {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the usable actions that name this actor in any role, ordered by name.
fn actions_naming(
    tx: &mut dyn Transaction,
    actor: &NamespacedName,
) -> Result<Vec<NamespacedName>, StoreError> {
    let actions = tx.actions()?;
    let naming = |action: &&Action| {
        action.state == ActionState::Available && action.actors.names().any(|name| name == actor)
    };
    let names = actions.iter().filter(naming);
    let mut names: Vec<NamespacedName> = names.map(|action| action.name.clone()).collect();
    names.sort_by_key(ToString::to_string);
    Ok(names)
}

fn upsert_actor(
    tx: &mut dyn Transaction,
    new: &ActorRow,
) -> Result<(ActorRow, RegistryChange), StoreError> {
    match tx.insert_actor(new) {
        Ok(()) => return Ok((new.clone(), RegistryChange::Added)),
        Err(StoreError::Taken { .. }) => {}
        Err(error) => return Err(error),
    }
    let known = tx.actor(&new.actor.name).map_err(not_found_as_conflict)?;
    let mut row = ActorRow {
        created_at: known.created_at,
        version: known.version,
        ..new.clone()
    };
    row.version = tx.replace_actor(&row).map_err(not_found_as_conflict)?;
    Ok((row, RegistryChange::Updated))
}

/// Maps `NotFound` to a conflict, so that a change overtaken by a removal is retried.
pub(crate) fn not_found_as_conflict(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { entity, id } => StoreError::Conflict {
            entity,
            id,
            expected: 1,
            found: 0,
        },
        other => other,
    }
}

fn record_change(
    tx: &mut dyn Transaction,
    row: &ActorRow,
    change: RegistryChange,
    by: &str,
) -> Result<(), StoreError> {
    let definition = ActorDefinition {
        name: row.actor.name.clone(),
        actor_type: row.actor.kind.actor_type(),
        hash: row.hash.clone(),
        steps: row.actor.steps().len() as u64,
        version: row.version,
    };
    match change {
        RegistryChange::Added => append_event(tx, &ActorAdded(definition), by),
        RegistryChange::Updated => append_event(tx, &ActorUpdated(definition), by),
    }
}

fn append_event(
    tx: &mut dyn Transaction,
    record: &impl EventPayload,
    by: &str,
) -> Result<(), StoreError> {
    tx.append(StreamId::System, &[new_event(by, record)?])?;
    Ok(())
}
