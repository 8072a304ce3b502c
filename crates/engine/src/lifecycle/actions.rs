//! The registry of actions. Each change is one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::event::payloads::{ActionArchived, ActionCreated, ActionUpdated};
use cleveragents_domain::id::ActionId;
use cleveragents_domain::{Action, ActionState, NamespacedName, StreamId};

use super::error::Result;
use crate::actors::RegistryChange;
use crate::journal::new_event;
use cleveragents_definitions::ActionDraft;
use cleveragents_ports::{Ids, StoreError, StoreHandle, StoreOperation, Transaction};

/// Registers, replaces, archives and returns actions.
#[derive(Debug, Clone)]
pub struct ActionRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ActionRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }

    /// Registers a new action. Fails if the name is taken; of two concurrent calls one fails.
    pub async fn create(&self, draft: ActionDraft, actor: &str) -> Result<Action> {
        let id = ActionId::new(self.ids.next());
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.create"), move |tx| {
                let action = draft.clone().into_action(id, tx.now()?);
                tx.insert_action(&action)?;
                let created = ActionCreated {
                    name: action.name.clone(),
                    id: action.id,
                    version: None,
                };
                tx.append(StreamId::System, &[new_event(&actor, &created)?])?;
                Ok(action)
            })
            .await
    }

    /// Replaces an action of the same name, or registers it. Existing plans keep the definition
    /// they were created with.
    pub async fn update(&self, draft: ActionDraft, actor: &str) -> Result<Action> {
        let id = ActionId::new(self.ids.next());
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.update"), move |tx| {
                let (action, change) = retry_on_conflict(tx, |tx| upsert_action(tx, &draft, id))?;
                let (name, id, version) = (action.name.clone(), action.id, action.version);
                let changed = match change {
                    RegistryChange::Added => {
                        let version = Some(version);
                        new_event(&actor, &ActionCreated { name, id, version })?
                    }
                    RegistryChange::Updated => {
                        new_event(&actor, &ActionUpdated { name, id, version })?
                    }
                };
                tx.append(StreamId::System, &[changed])?;
                Ok(action)
            })
            .await
    }

    /// Archives an action. Idempotent.
    pub async fn archive(&self, name: NamespacedName, actor: &str) -> Result<Action> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.archive"), move |tx| {
                let (action, before) = retry_on_conflict(tx, |tx| archive_action(tx, &name))?;
                if before == ActionState::Archived {
                    return Ok(action);
                }
                let archived = ActionArchived {
                    name: action.name.clone(),
                    id: action.id,
                };
                tx.append(StreamId::System, &[new_event(&actor, &archived)?])?;
                Ok(action)
            })
            .await
    }

    pub async fn action(&self, name: NamespacedName) -> Result<Action> {
        self.store.read(move |tx| Ok(tx.action(&name)?)).await
    }

    /// Returns all actions, newest first, and how often each was used.
    pub async fn list(&self) -> Result<(Vec<Action>, BTreeMap<ActionId, u64>)> {
        self.store
            .read(|tx| Ok((tx.actions()?, tx.action_uses()?)))
            .await
    }
}

/// Retries a change on a version conflict. The caller named the action without a version, so it
/// means the current one: a stale version is read again instead of refused.
pub(crate) fn retry_on_conflict<T>(
    tx: &mut dyn Transaction,
    change: impl Fn(&mut dyn Transaction) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    loop {
        match change(tx) {
            Err(StoreError::Conflict { .. }) => {}
            answer => return answer,
        }
    }
}

fn upsert_action(
    tx: &mut dyn Transaction,
    draft: &ActionDraft,
    id: ActionId,
) -> Result<(Action, RegistryChange), StoreError> {
    let now = tx.now()?;
    let known = match tx.action(&draft.name) {
        Ok(known) => known,
        Err(StoreError::NotFound { .. }) => {
            let action = draft.clone().into_action(id, now);
            match tx.insert_action(&action) {
                // Another transaction registered the name just now, so replace that action.
                Err(StoreError::Taken { .. }) => tx.action(&draft.name)?,
                answer => return answer.map(|()| (action, RegistryChange::Added)),
            }
        }
        Err(error) => return Err(error),
    };
    let mut action = draft.clone().into_replacement(&known, now);
    action.version = tx.update_action(&action)?;
    Ok((action, RegistryChange::Updated))
}

/// Archives the action. Returns it with its previous state.
fn archive_action(
    tx: &mut dyn Transaction,
    name: &NamespacedName,
) -> Result<(Action, ActionState), StoreError> {
    let mut action = tx.action(name)?;
    let before = action.state;
    if before != ActionState::Archived {
        action.state = ActionState::Archived;
        action.updated_at = tx.now()?;
        action.version = tx.update_action(&action)?;
    }
    Ok((action, before))
}
