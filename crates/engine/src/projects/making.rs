//! Making a project: the project, its resources, links and rules are one commit.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Arc;

use cleveragents_domain::action::DESCRIPTION_MAXIMUM;
use cleveragents_domain::id::{InvariantId, ProjectId, ResourceId};
use cleveragents_domain::{
    AbsolutePath, EventKind, Invariant, NamespacedName, NewEvent, ProfileName, Project, Resource,
    ResourceType, Scope, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{ProjectError, Result};
use super::{ProjectService, record};
use crate::lifecycle::moves::event;
use crate::ports::{Ids, StoreError, Unit};

/// A place that somebody looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: AbsolutePath,
    pub resource_type: ResourceType,
}

/// A project to be made.
#[derive(Debug, Clone)]
pub struct NewProject {
    pub name: NamespacedName,
    pub description: Option<String>,
    pub automation_profile: Option<ProfileName>,
    /// Registered and linked in this order; what is registered already is linked as it is.
    pub places: Vec<Found>,
    pub invariants: Vec<String>,
}

/// What came of making a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    pub project: Project,
    /// In the order in which they are linked.
    pub resources: Vec<Resource>,
    /// Those of them that had been registered before.
    pub reused: Vec<NamespacedName>,
    pub invariants: Vec<Invariant>,
}

impl ProjectService {
    /// Makes a project with all that belongs to it, or nothing. A taken name is refused, whoever
    /// came first by however little.
    pub async fn create(&self, new: NewProject, actor: &str) -> Result<Created> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(self.operation("project.create"), move |unit| {
                make(unit, &*ids, &new, &actor)
            })
            .await
    }
}

fn make(unit: &mut dyn Unit, ids: &dyn Ids, new: &NewProject, actor: &str) -> Result<Created> {
    let now = unit.now()?;
    check_texts(new)?;
    if let Some(profile) = &new.automation_profile {
        check_profile(unit, profile)?;
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
    unit.insert_project(&project)?;
    let mut events = vec![event(EventKind::ProjectCreated, actor, &project)?];
    let placed = place_all(unit, ids, &new.places)?;
    let (mut resources, mut reused) = (Vec::new(), Vec::new());
    for found in distinct(&new.places) {
        let mut place = placed.get(&found.path).cloned();
        let Placed { resource, before } = loop {
            let current = match place.take() {
                Some(current) => current,
                None => register(unit, ids, found)?,
            };
            match unit.link_resource(&project.name, &current.resource.name) {
                Ok(_) => break current,
                // What had been registered before was removed just now: it is new after all.
                Err(StoreError::NotFound {
                    what: "resource", ..
                }) => {}
                Err(error) => return Err(error.into()),
            }
        };
        match before {
            Before::Registered => reused.push(resource.name.clone()),
            Before::New => events.push(event(EventKind::ResourceAdded, actor, &resource)?),
        }
        events.push(linked_event(&project.name, &resource.name, actor)?);
        resources.push(resource);
    }
    let invariants = rules(ids, &new.invariants, &new.name, now)?;
    for invariant in &invariants {
        unit.insert_invariant(invariant)?;
        events.push(event(EventKind::InvariantAdded, actor, invariant)?);
    }
    record(unit, &events)?;
    Ok(Created {
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

fn check_profile(unit: &mut dyn Unit, name: &ProfileName) -> Result<()> {
    let ProfileName::Custom(custom) = name else {
        return Ok(());
    };
    match unit.profile(custom) {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound { .. }) => Err(ProjectError::UnknownProfile {
            name: custom.to_string(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// The rules, each text once.
fn rules(
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
            scope: Scope::Project(project.clone()),
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

/// A resource, and whether it was there before.
#[derive(Debug, Clone)]
struct Placed {
    resource: Resource,
    before: Before,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Registered,
    New,
}

/// Registers each place. All callers take names in one order, so that two who want the same names
/// do not wait for each other in a circle.
fn place_all(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    places: &[Found],
) -> Result<BTreeMap<AbsolutePath, Placed>> {
    let mut sorted: Vec<&Found> = distinct(places).collect();
    sorted.sort_by_key(|found| wanted_name(&found.path));
    let mut placed = BTreeMap::new();
    for found in sorted {
        placed.insert(found.path.clone(), register(unit, ids, found)?);
    }
    Ok(placed)
}

/// The places in their order, each path once.
fn distinct(places: &[Found]) -> impl Iterator<Item = &Found> {
    let first = |path: &AbsolutePath| places.iter().position(|other| other.path == *path);
    let numbered = places.iter().enumerate();
    numbered.filter_map(move |(index, found)| (first(&found.path) == Some(index)).then_some(found))
}

fn wanted_name(path: &AbsolutePath) -> NamespacedName {
    NamespacedName::nearest(&String::from_utf8_lossy(path.last_component()))
}

/// Registers the place under its directory's name, numbered if that is taken, or answers with the
/// resource that has the path. Whether a name is free is decided by the insert itself (law 3).
fn register(unit: &mut dyn Unit, ids: &dyn Ids, found: &Found) -> Result<Placed> {
    let wanted = wanted_name(&found.path);
    let mut number = 1;
    loop {
        let resource = new_resource(unit, ids, wanted.numbered(number), found)?;
        match unit.insert_resource(&resource) {
            Ok(()) => {
                let before = Before::New;
                return Ok(Placed { resource, before });
            }
            Err(StoreError::Taken {
                what: "the path",
                holder,
                ..
            }) => {
                let holder = holder.parse().map_err(StoreError::internal)?;
                match unit.resource(&holder) {
                    Ok(resource) => {
                        let before = Before::Registered;
                        return Ok(Placed { resource, before });
                    }
                    // Removed just now: the path is free again.
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
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    name: NamespacedName,
    found: &Found,
) -> Result<Resource> {
    Ok(Resource {
        id: ResourceId::new(ids.next()),
        name,
        resource_type: found.resource_type,
        path: found.path.clone(),
        created_at: unit.now()?,
        version: 1,
    })
}

pub(super) fn linked_event(
    project: &NamespacedName,
    resource: &NamespacedName,
    actor: &str,
) -> Result<NewEvent> {
    let link = json!({"project": project, "resource": resource});
    Ok(event(EventKind::ResourceLinked, actor, &link)?)
}
