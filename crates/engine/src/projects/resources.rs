//! Registers, links, unlinks and removes resources; one transaction each.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{ResourceAdded, ResourceRemoved, ResourceUnlinked};
use cleveragents_domain::{NamespacedName, Resource};
use serde::{Deserialize, Serialize};

use super::creation::{LocatedResource, linked_event, new_resource};
use super::error::{ProjectError, Result};
use super::{ProjectService, append_events};
use crate::journal::new_event;
use cleveragents_ports::{StoreError, UniqueKey};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkOutcome {
    New,
    /// It was already linked.
    // Databases contain the old name.
    #[serde(rename = "Stands")]
    Unchanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnlinkOutcome {
    Done,
    /// It was not linked.
    // Databases contain the old name.
    #[serde(rename = "Stands")]
    Unchanged,
}

impl ProjectService {
    /// Registers a location under a name chosen by the caller. Fails with the existing name if the
    /// location is already registered.
    pub async fn add_resource(
        &self,
        name: NamespacedName,
        location: LocatedResource,
        actor: &str,
    ) -> Result<Resource> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(self.operation("resource.add"), move |tx| {
                let resource = new_resource(tx, &*ids, name.clone(), &location)?;
                tx.insert_resource(&resource).map_err(|error| match error {
                    StoreError::Taken {
                        key: UniqueKey::ResourcePath,
                        holder,
                        ..
                    } => path_taken_error(&location, &holder),
                    error => error.into(),
                })?;
                let added = ResourceAdded(resource.clone());
                append_events(tx, &[new_event(&actor, &added)?])?;
                Ok(resource)
            })
            .await
    }

    /// Removes a resource; its files stay. Fails if it is linked.
    pub async fn remove_resource(&self, name: NamespacedName, actor: &str) -> Result<Resource> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("resource.remove"), move |tx| {
                let resource = tx.resource(&name)?;
                tx.delete_resource(&resource)
                    .map_err(|error| removal_error(&name, error))?;
                let removed = ResourceRemoved {
                    id: resource.id,
                    name: resource.name.clone(),
                };
                append_events(tx, &[new_event(&actor, &removed)?])?;
                Ok(resource)
            })
            .await
    }

    /// Links a resource to a project. Idempotent.
    pub async fn link(
        &self,
        project: NamespacedName,
        resource: NamespacedName,
        actor: &str,
    ) -> Result<LinkOutcome> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.link"), move |tx| {
                if tx.link_resource(&project, &resource)? == 0 {
                    return Ok(LinkOutcome::Unchanged);
                }
                append_events(tx, &[linked_event(&project, &resource, &actor)?])?;
                Ok::<_, ProjectError>(LinkOutcome::New)
            })
            .await
    }

    /// Removes a link; the resource stays registered.
    pub async fn unlink(
        &self,
        project: NamespacedName,
        resource: NamespacedName,
        actor: &str,
    ) -> Result<UnlinkOutcome> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.unlink"), move |tx| {
                if tx.unlink_resource(&project, &resource)? == 0 {
                    return Ok(UnlinkOutcome::Unchanged);
                }
                let link = ResourceUnlinked {
                    project: project.clone(),
                    resource: resource.clone(),
                };
                append_events(tx, &[new_event(&actor, &link)?])?;
                Ok::<_, ProjectError>(UnlinkOutcome::Done)
            })
            .await
    }
}

fn path_taken_error(location: &LocatedResource, holder: &str) -> ProjectError {
    match holder.parse() {
        Ok(resource) => ProjectError::PathTaken {
            path: location.path.clone(),
            resource,
        },
        Err(error) => StoreError::internal(error).into(),
    }
}

fn removal_error(name: &NamespacedName, error: StoreError) -> ProjectError {
    match error {
        StoreError::Referenced { referrers, .. } => ProjectError::Linked {
            resource: name.clone(),
            projects: referrers,
        },
        // Report the name, because the caller did not give an id.
        StoreError::NotFound { entity, .. } => StoreError::NotFound {
            entity,
            id: name.to_string(),
        }
        .into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_outcomes_keep_their_names() {
        for (outcome, stored) in [
            (LinkOutcome::New, "New"),
            (LinkOutcome::Unchanged, "Stands"),
        ] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), stored);
            assert_eq!(
                serde_json::from_value::<LinkOutcome>(stored.into()).unwrap(),
                outcome
            );
        }
        let unlinked = [
            (UnlinkOutcome::Done, "Done"),
            (UnlinkOutcome::Unchanged, "Stands"),
        ];
        for (outcome, stored) in unlinked {
            assert_eq!(serde_json::to_value(outcome).unwrap(), stored);
            assert_eq!(
                serde_json::from_value::<UnlinkOutcome>(stored.into()).unwrap(),
                outcome
            );
        }
    }
}
