//! Resources: registered, linked, unlinked, removed; each one transaction.

use std::sync::Arc;

use cleveragents_domain::{EventKind, NamespacedName, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{ProjectError, Result};
use super::making::{Found, linked_event, new_resource};
use super::{ProjectService, record};
use crate::lifecycle::moves::event;
use crate::ports::StoreError;

/// What came of linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linking {
    New,
    /// It was linked before.
    Stands,
}

/// What came of unlinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unlinking {
    Done,
    /// It was not linked.
    Stands,
}

impl ProjectService {
    /// Registers a place under a name of the caller's choice. A place that has another name
    /// already is refused with that name.
    pub async fn add_resource(
        &self,
        name: NamespacedName,
        found: Found,
        actor: &str,
    ) -> Result<Resource> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(self.operation("resource.add"), move |unit| {
                let resource = new_resource(unit, &*ids, name.clone(), &found)?;
                unit.insert_resource(&resource)
                    .map_err(|error| match error {
                        StoreError::Taken {
                            what: "the path",
                            holder,
                            ..
                        } => path_taken(&found, &holder),
                        error => error.into(),
                    })?;
                record(unit, &[event(EventKind::ResourceAdded, &actor, &resource)?])?;
                Ok(resource)
            })
            .await
    }

    /// Takes a resource off the register; its files stay. One that is linked is refused.
    pub async fn remove_resource(&self, name: NamespacedName, actor: &str) -> Result<Resource> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("resource.remove"), move |unit| {
                let resource = unit.resource(&name)?;
                unit.delete_resource(&resource)
                    .map_err(|error| not_removed(&name, error))?;
                let removed = json!({"id": resource.id, "name": resource.name});
                let removed = event(EventKind::ResourceRemoved, &actor, &removed)?;
                record(unit, &[removed])?;
                Ok(resource)
            })
            .await
    }

    /// Links a resource to a project; twice is once.
    pub async fn link(
        &self,
        project: NamespacedName,
        resource: NamespacedName,
        actor: &str,
    ) -> Result<Linking> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.link"), move |unit| {
                if unit.link_resource(&project, &resource)? == 0 {
                    return Ok(Linking::Stands);
                }
                record(unit, &[linked_event(&project, &resource, &actor)?])?;
                Ok::<_, ProjectError>(Linking::New)
            })
            .await
    }

    /// Undoes a link; the resource stays registered.
    pub async fn unlink(
        &self,
        project: NamespacedName,
        resource: NamespacedName,
        actor: &str,
    ) -> Result<Unlinking> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.unlink"), move |unit| {
                if unit.unlink_resource(&project, &resource)? == 0 {
                    return Ok(Unlinking::Stands);
                }
                let link = json!({"project": project, "resource": resource});
                record(unit, &[event(EventKind::ResourceUnlinked, &actor, &link)?])?;
                Ok::<_, ProjectError>(Unlinking::Done)
            })
            .await
    }
}

fn path_taken(found: &Found, holder: &str) -> ProjectError {
    match holder.parse() {
        Ok(resource) => ProjectError::PathTaken {
            path: found.path.clone(),
            resource,
        },
        Err(error) => StoreError::internal(error).into(),
    }
}

fn not_removed(name: &NamespacedName, error: StoreError) -> ProjectError {
    match error {
        StoreError::Taken { holder, .. } => ProjectError::Linked {
            resource: name.clone(),
            projects: holder,
        },
        // By its name, not by its id, which nobody gave.
        StoreError::NotFound { what, .. } => StoreError::NotFound {
            what,
            id: name.to_string(),
        }
        .into(),
        error => error.into(),
    }
}
