//! Actions: registered, replaced, archived; each one transaction.

use std::collections::BTreeMap;

use cleveragents_domain::id::ActionId;
use cleveragents_domain::{Action, ActionState, EventKind, NamespacedName, StreamId};
use serde_json::json;

use super::PlanLifecycle;
use super::error::Result;
use super::moves::event;
use crate::definitions::ActionDraft;

impl PlanLifecycle {
    /// Registers a new action. A taken name is refused, whoever came first by however little.
    pub async fn create_action(&self, draft: ActionDraft, actor: &str) -> Result<Action> {
        let id = ActionId::new(self.ids.next());
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.create"), move |unit| {
                let action = draft.clone().into_action(id, unit.now()?);
                unit.insert_action(&action)?;
                let record = json!({"name": action.name, "id": action.id});
                let created = event(EventKind::ActionCreated, &actor, &record)?;
                unit.append(StreamId::System, &[created])?;
                Ok(action)
            })
            .await
    }

    /// Replaces an action of the same name, or registers it. Plans made before keep what they were
    /// made with.
    pub async fn update_action(&self, draft: ActionDraft, actor: &str) -> Result<Action> {
        let id = ActionId::new(self.ids.next());
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.update"), move |unit| {
                let now = unit.now()?;
                let known = unit.actions()?.into_iter().find(|it| it.name == draft.name);
                let (action, kind) = match known {
                    None => {
                        let action = draft.clone().into_action(id, now);
                        unit.insert_action(&action)?;
                        (action, EventKind::ActionCreated)
                    }
                    Some(known) => {
                        let mut action = draft.clone().replacing(&known, now);
                        action.version = unit.update_action(&action)?;
                        (action, EventKind::ActionUpdated)
                    }
                };
                let record =
                    json!({"name": action.name, "id": action.id, "version": action.version});
                let changed = event(kind, &actor, &record)?;
                unit.append(StreamId::System, &[changed])?;
                Ok(action)
            })
            .await
    }

    /// Takes an action out of use; one that already is stays so.
    pub async fn archive_action(&self, name: NamespacedName, actor: &str) -> Result<Action> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("action.archive"), move |unit| {
                let mut action = unit.action(&name)?;
                if action.state == ActionState::Archived {
                    return Ok(action);
                }
                action.state = ActionState::Archived;
                action.updated_at = unit.now()?;
                action.version = unit.update_action(&action)?;
                let record = json!({"name": action.name, "id": action.id});
                let archived = event(EventKind::ActionArchived, &actor, &record)?;
                unit.append(StreamId::System, &[archived])?;
                Ok(action)
            })
            .await
    }

    pub async fn action(&self, name: NamespacedName) -> Result<Action> {
        self.store.read(move |unit| Ok(unit.action(&name)?)).await
    }

    /// All actions, newest first, and how often each was used.
    pub async fn actions(&self) -> Result<(Vec<Action>, BTreeMap<ActionId, u64>)> {
        self.store
            .read(|unit| Ok((unit.actions()?, unit.action_uses()?)))
            .await
    }
}
