//! `resource.tree`

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_api::Reply;
use cleveragents_api::resource::{
    ResourceTree, ResourceTreeRow, ResourceTreeRowKind, ResourceTreeRows,
};
use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::projects::{ProjectError, ProjectMap, ResourceView};
use cleveragents_ports::{Entity, StoreError};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::project::create_step;

impl Handler<ResourceTree> for App {
    async fn handle(
        &self,
        request: ResourceTree,
        _: &Caller,
    ) -> Result<Reply<ResourceTreeRows>, RequestError> {
        let map = self.services.projects().project_map().await?;
        let tree = match request.name {
            Some(name) => rows_below(&map, &name)?,
            None => all_rows(&map),
        };
        let is_empty = tree.is_empty();
        let reply = Reply::new(ResourceTreeRows { tree });
        Ok(if is_empty {
            reply.hint(create_step())
        } else {
            reply
        })
    }
}

/// The nesting of resources by their paths.
struct Nesting<'a> {
    children: BTreeMap<&'a NamespacedName, Vec<&'a Resource>>,
    parents: BTreeMap<&'a NamespacedName, &'a Resource>,
}

impl<'a> Nesting<'a> {
    /// Sorted paths come after the paths that contain them, so one pass with a stack of the current
    /// ancestors finds the nearest parent of each.
    fn of(resources: &'a [ResourceView]) -> Self {
        let mut sorted: Vec<&Resource> = resources.iter().map(|view| &view.resource).collect();
        let components = |resource: &Resource| -> Vec<Vec<u8>> {
            let parts = resource.path.as_bytes().split(|byte| *byte == b'/');
            parts.map(<[u8]>::to_vec).collect()
        };
        sorted.sort_by_cached_key(|resource| components(resource));
        let mut nesting = Self {
            children: BTreeMap::new(),
            parents: BTreeMap::new(),
        };
        let mut ancestors: Vec<&Resource> = Vec::new();
        for resource in sorted {
            while ancestors
                .last()
                .is_some_and(|outer| !resource.path.is_within(&outer.path))
            {
                ancestors.pop();
            }
            if let Some(outer) = ancestors.last() {
                let children = nesting.children.entry(&outer.name).or_default();
                children.push(resource);
                nesting.parents.insert(&resource.name, outer);
            }
            ancestors.push(resource);
        }
        nesting
    }

    /// Returns whether this resource is inside one of `linked`.
    fn is_nested_in(&self, resource: &Resource, linked: &BTreeSet<&NamespacedName>) -> bool {
        let mut outer = self.parents.get(&resource.name);
        while let Some(resource) = outer {
            if linked.contains(&resource.name) {
                return true;
            }
            outer = self.parents.get(&resource.name);
        }
        false
    }

    /// Adds the resource and everything inside it. Below a project, `linked` are the resources that
    /// are linked to it.
    fn add_subtree(
        &self,
        rows: &mut Vec<ResourceTreeRow>,
        depth: usize,
        top: &Resource,
        linked: Option<&BTreeSet<&NamespacedName>>,
    ) {
        let mut open = vec![(depth, top)];
        while let Some((depth, resource)) = open.pop() {
            rows.push(ResourceTreeRow {
                name: Some(resource.name.clone()),
                resource_type: Some(resource.resource_type),
                path: Some(resource.path.clone()),
                linked: linked.map(|linked| linked.contains(&resource.name)),
                ..row(depth, ResourceTreeRowKind::Resource)
            });
            let inside = self.children.get(&resource.name).into_iter().flatten();
            open.extend(inside.rev().map(|inner| (depth + 1, *inner)));
        }
    }
}

fn row(depth: usize, kind: ResourceTreeRowKind) -> ResourceTreeRow {
    ResourceTreeRow {
        depth,
        kind,
        name: None,
        resource_type: None,
        path: None,
        linked: None,
    }
}

fn all_rows(map: &ProjectMap) -> Vec<ResourceTreeRow> {
    let nesting = Nesting::of(&map.resources);
    let known = map.resources.iter().map(|view| &view.resource);
    let known: BTreeMap<_, _> = known.map(|resource| (&resource.name, resource)).collect();
    let mut rows = Vec::new();
    for (project, resources) in &map.projects {
        rows.push(ResourceTreeRow {
            name: Some(project.name.clone()),
            ..row(0, ResourceTreeRowKind::Project)
        });
        let linked: BTreeSet<_> = resources.iter().map(|resource| &resource.name).collect();
        for resource in resources.iter().filter_map(|one| known.get(&one.name)) {
            if !nesting.is_nested_in(resource, &linked) {
                nesting.add_subtree(&mut rows, 1, resource, Some(&linked));
            }
        }
    }
    let alone = |view: &&ResourceView| {
        view.projects.is_empty() && !nesting.parents.contains_key(&view.resource.name)
    };
    let alone: Vec<&ResourceView> = map.resources.iter().filter(alone).collect();
    if !alone.is_empty() {
        rows.push(row(0, ResourceTreeRowKind::Unlinked));
    }
    for view in alone {
        nesting.add_subtree(&mut rows, 1, &view.resource, None);
    }
    rows
}

fn rows_below(
    map: &ProjectMap,
    name: &NamespacedName,
) -> Result<Vec<ResourceTreeRow>, RequestError> {
    let mut resources = map.resources.iter().map(|view| &view.resource);
    let Some(top) = resources.find(|resource| resource.name == *name) else {
        let missing = StoreError::NotFound {
            entity: Entity::Resource,
            id: name.to_string(),
        };
        return Err(ProjectError::from(missing).into());
    };
    let mut rows = Vec::new();
    Nesting::of(&map.resources).add_subtree(&mut rows, 0, top, None);
    Ok(rows)
}
