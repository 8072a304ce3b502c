//! Creates a project: the project, its resources, links and rules are one commit.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Arc;

use cleveragents_domain::action::DESCRIPTION_MAXIMUM;
use cleveragents_domain::event::payloads::{
    InvariantAdded, ProjectCreated, ResourceAdded, ResourceLinked,
};
use cleveragents_domain::id::{InvariantId, ProjectId, ResourceId};
use cleveragents_domain::{
    AbsolutePath, Invariant, InvariantScope, NamespacedName, NewEvent, ProfileName, Project,
    Resource, ResourceType, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::error::{ProjectError, Result};
use super::{ProjectService, append_events};
use crate::journal::new_event;
use cleveragents_ports::{Entity, Ids, StoreError, Transaction, UniqueKey};

/// An inspected location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedResource {
    pub path: AbsolutePath,
    pub resource_type: ResourceType,
}

#[derive(Debug, Clone)]
pub struct NewProject {
    pub name: NamespacedName,
    pub description: Option<String>,
    pub automation_profile: Option<ProfileName>,
    /// Registered and linked in this order. A location that is already registered is linked with
    /// its existing resource.
    pub locations: Vec<LocatedResource>,
    pub invariants: Vec<String>,
}

/// Outcome of creating a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreatedProject {
    pub project: Project,
    /// In the order in which they are linked.
    pub resources: Vec<Resource>,
    /// The resources that were registered before.
    pub reused: Vec<NamespacedName>,
    pub invariants: Vec<Invariant>,
}

impl ProjectService {
    /// Creates a project with all its parts, or nothing. Fails if the name is taken; of two
    /// concurrent calls one fails.
    pub async fn create(&self, new: NewProject, actor: &str) -> Result<CreatedProject> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.create"), move |tx| {
                create_project(tx, &*ids, &new, &actor)
            })
            .await
    }
}

fn create_project(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    new: &NewProject,
    actor: &str,
) -> Result<CreatedProject> {
    let now = tx.now()?;
    check_texts(new)?;
    if let Some(profile) = &new.automation_profile {
        check_profile(tx, profile)?;
    }
    let project = Project {
        id: ProjectId::new(ids.next()),
        name: new.name.clone(),
        description: new.description.clone(),
        automation_profile: new.automation_profile.clone(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    tx.insert_project(&project)?;
    let mut events = vec![new_event(actor, &ProjectCreated(project.clone()))?];
    let registered = register_all(tx, ids, &new.locations)?;
    let (mut resources, mut reused) = (Vec::new(), Vec::new());
    for location in unique_locations(&new.locations) {
        let mut registered_resource = registered.get(&location.path).cloned();
        let RegisteredResource {
            resource,
            registration,
        } = loop {
            let current = match registered_resource.take() {
                Some(current) => current,
                None => register(tx, ids, location)?,
            };
            match tx.link_resource(&project.name, &current.resource.name) {
                Ok(_) => break current,
                // An existing resource was removed just now, so retry and register it anew.
                Err(StoreError::NotFound {
                    entity: Entity::Resource,
                    ..
                }) => {}
                Err(error) => return Err(error.into()),
            }
        };
        match registration {
            Registration::Existing => reused.push(resource.name.clone()),
            Registration::New => {
                events.push(new_event(actor, &ResourceAdded(resource.clone()))?);
            }
        }
        events.push(linked_event(&project.name, &resource.name, actor)?);
        resources.push(resource);
    }
    let invariants = new_invariants(ids, &new.invariants, &new.name, now)?;
    for invariant in &invariants {
        tx.insert_invariant(invariant)?;
        events.push(new_event(actor, &InvariantAdded(invariant.clone()))?);
    }
    append_events(tx, &events)?;
    Ok(CreatedProject {
        project,
        resources,
        reused,
        invariants,
    })
}

fn check_texts(new: &NewProject) -> Result<()> {
    let description = new.description.iter().map(|text| ("a description", text));
    let invariants = new.invariants.iter().map(|text| ("an invariant", text));
    for (what, text) in description.chain(invariants) {
        if text.len() > DESCRIPTION_MAXIMUM {
            return Err(ProjectError::TooLong {
                what,
                maximum: DESCRIPTION_MAXIMUM,
                length: text.len(),
            });
        }
    }
    Ok(())
}

fn check_profile(tx: &mut dyn Transaction, name: &ProfileName) -> Result<()> {
    let ProfileName::Custom(custom) = name else {
        return Ok(());
    };
    match tx.profile(custom) {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound { .. }) => Err(ProjectError::UnknownProfile {
            name: custom.to_string(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Returns the rules without duplicates.
fn new_invariants(
    ids: &dyn Ids,
    texts: &[String],
    project: &NamespacedName,
    now: Timestamp,
) -> Result<Vec<Invariant>> {
    let mut rules: Vec<Invariant> = Vec::new();
    let mut said = HashSet::new();
    for text in texts {
        let rule = Invariant {
            id: InvariantId::new(ids.next()),
            text: text.clone(),
            scope: InvariantScope::Project(project.clone()),
            non_overridable: false,
            created_at: now,
        };
        rule.validate()?;
        if said.insert(rule.normalised_text()) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

/// A resource, and whether it existed before.
#[derive(Debug, Clone)]
struct RegisteredResource {
    resource: Resource,
    registration: Registration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Existing,
    New,
}

/// Registers each location. All callers insert names in the same order, so two that want the same
/// names cannot deadlock.
fn register_all(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    places: &[LocatedResource],
) -> Result<BTreeMap<AbsolutePath, RegisteredResource>> {
    let mut sorted: Vec<&LocatedResource> = unique_locations(places).collect();
    sorted.sort_by_key(|location| preferred_name(&location.path));
    let mut registered = BTreeMap::new();
    for location in sorted {
        registered.insert(location.path.clone(), register(tx, ids, location)?);
    }
    Ok(registered)
}

/// Returns the locations in order, without duplicate paths.
fn unique_locations(places: &[LocatedResource]) -> impl Iterator<Item = &LocatedResource> {
    let first = |path: &AbsolutePath| places.iter().position(|other| other.path == *path);
    let numbered = places.iter().enumerate();
    numbered.filter_map(move |(index, location)| {
        (first(&location.path) == Some(index)).then_some(location)
    })
}

fn preferred_name(path: &AbsolutePath) -> NamespacedName {
    NamespacedName::sanitize(&String::from_utf8_lossy(path.last_component()))
}

/// Registers the location under its directory's name, numbered if that is taken, or returns the
/// resource that has the path. The insert itself decides whether a name is free (law 3).
fn register(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    location: &LocatedResource,
) -> Result<RegisteredResource> {
    let preferred = preferred_name(&location.path);
    let mut number = 1;
    loop {
        let resource = new_resource(tx, ids, preferred.with_number(number), location)?;
        match tx.insert_resource(&resource) {
            Ok(()) => {
                let registration = Registration::New;
                return Ok(RegisteredResource {
                    resource,
                    registration,
                });
            }
            Err(StoreError::Taken {
                key: UniqueKey::ResourcePath,
                holder,
                ..
            }) => {
                let holder = holder.parse().map_err(StoreError::internal)?;
                match tx.resource(&holder) {
                    Ok(resource) => {
                        let registration = Registration::Existing;
                        return Ok(RegisteredResource {
                            resource,
                            registration,
                        });
                    }
                    // The other resource was removed just now, so the path is free again.
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(StoreError::Taken { .. }) => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn new_resource(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    name: NamespacedName,
    location: &LocatedResource,
) -> Result<Resource> {
    Ok(Resource {
        id: ResourceId::new(ids.next()),
        name,
        resource_type: location.resource_type,
        path: location.path.clone(),
        created_at: tx.now()?,
        version: 1,
    })
}

pub(super) fn linked_event(
    project: &NamespacedName,
    resource: &NamespacedName,
    actor: &str,
) -> Result<NewEvent> {
    let link = ResourceLinked {
        project: project.clone(),
        resource: resource.clone(),
    };
    Ok(new_event(actor, &link)?)
}
