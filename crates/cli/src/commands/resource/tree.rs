//! `agents resource tree`

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::projects::{ProjectError, ProjectMap, ResourceView};
use cleveragents_ports::{Entity, StoreError};
use serde_json::{Value, json};

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, TreeRow, ViewCell};

/// Show projects, their resources, and nested resources
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource tree
  agents resource tree local/library")]
pub struct ResourceTreeArgs {
    /// Only this resource and what is inside it
    name: Option<String>,
}

impl ResourceTreeArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = self
            .name
            .as_deref()
            .map(|name| names::parse_name("resource", name));
        let name = name.transpose()?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let map = app.block_on(app.projects().project_map())?;
        let nodes = match name {
            Some(name) => nodes_below(&map, &name)?,
            None => all_nodes(&map),
        };
        Ok(answer(&nodes))
    }
}

struct ResourceTreeNode<'a> {
    depth: usize,
    kind: ResourceTreeNodeKind<'a>,
}

enum ResourceTreeNodeKind<'a> {
    Project(&'a NamespacedName),
    /// The parent of resources that are linked to no project.
    Unlinked,
    Resource {
        resource: &'a Resource,
        link: ResourceLink,
    },
}

/// Why a resource is in the tree: it is linked, or it is inside a linked one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResourceLink {
    Linked,
    Nested,
    /// The resource is not below a project.
    NoProject,
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
        let mut way: Vec<&Resource> = Vec::new();
        for resource in sorted {
            while way
                .last()
                .is_some_and(|outer| !resource.path.is_within(&outer.path))
            {
                way.pop();
            }
            if let Some(outer) = way.last() {
                nesting
                    .children
                    .entry(&outer.name)
                    .or_default()
                    .push(resource);
                nesting.parents.insert(&resource.name, outer);
            }
            way.push(resource);
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

    /// Adds the resource and everything inside it.
    fn add_subtree(
        &self,
        nodes: &mut Vec<ResourceTreeNode<'a>>,
        (depth, top): (usize, &'a Resource),
        linked: Option<&BTreeSet<&NamespacedName>>,
    ) {
        let mut open = vec![(depth, top)];
        while let Some((depth, resource)) = open.pop() {
            let link = match linked.map(|linked| linked.contains(&resource.name)) {
                Some(true) => ResourceLink::Linked,
                Some(false) => ResourceLink::Nested,
                None => ResourceLink::NoProject,
            };
            let what = ResourceTreeNodeKind::Resource { resource, link };
            nodes.push(ResourceTreeNode { depth, kind: what });
            let inside = self.children.get(&resource.name).into_iter().flatten();
            open.extend(inside.rev().map(|inner| (depth + 1, *inner)));
        }
    }
}

fn all_nodes(map: &ProjectMap) -> Vec<ResourceTreeNode<'_>> {
    let nesting = Nesting::of(&map.resources);
    let mut nodes = Vec::new();
    for (project, resources) in &map.projects {
        let what = ResourceTreeNodeKind::Project(&project.name);
        nodes.push(ResourceTreeNode {
            depth: 0,
            kind: what,
        });
        let linked: BTreeSet<_> = resources.iter().map(|resource| &resource.name).collect();
        let known = map.resources.iter().map(|view| &view.resource);
        let known: BTreeMap<_, _> = known.map(|resource| (&resource.name, resource)).collect();
        for resource in resources.iter().filter_map(|one| known.get(&one.name)) {
            if !nesting.is_nested_in(resource, &linked) {
                nesting.add_subtree(&mut nodes, (1, resource), Some(&linked));
            }
        }
    }
    let alone = |view: &&ResourceView| {
        view.projects.is_empty() && !nesting.parents.contains_key(&view.resource.name)
    };
    let alone: Vec<&ResourceView> = map.resources.iter().filter(alone).collect();
    if !alone.is_empty() {
        nodes.push(ResourceTreeNode {
            depth: 0,
            kind: ResourceTreeNodeKind::Unlinked,
        });
    }
    for view in alone {
        nesting.add_subtree(&mut nodes, (1, &view.resource), None);
    }
    nodes
}

fn nodes_below<'a>(
    map: &'a ProjectMap,
    name: &NamespacedName,
) -> Result<Vec<ResourceTreeNode<'a>>, CommandFailure> {
    let found = map
        .resources
        .iter()
        .find(|view| view.resource.name == *name);
    let Some(found) = found else {
        let missing = StoreError::NotFound {
            entity: Entity::Resource,
            id: name.to_string(),
        };
        return Err(ProjectError::from(missing).into());
    };
    let mut nodes = Vec::new();
    Nesting::of(&map.resources).add_subtree(&mut nodes, (0, &found.resource), None);
    Ok(nodes)
}

fn answer(nodes: &[ResourceTreeNode<'_>]) -> CommandAnswer {
    let json = json!({"tree": nodes.iter().map(data).collect::<Vec<_>>()});
    let view = if nodes.is_empty() {
        OutputView::new().text("No projects and no resources.")
    } else {
        OutputView::new().tree("Resources", nodes.iter().map(tree_row))
    };
    let answer = CommandAnswer::new(json, view);
    if nodes.is_empty() {
        answer.with_message(MessageLevel::Hint, "agents project create NAME --path DIR")
    } else {
        answer
    }
}

fn tree_row(node: &ResourceTreeNode<'_>) -> TreeRow {
    let cells = match &node.kind {
        ResourceTreeNodeKind::Project(name) => vec![ViewCell::new(name.to_string(), Tone::Strong)],
        ResourceTreeNodeKind::Unlinked => vec![ViewCell::new("(in no project)", Tone::Faint)],
        ResourceTreeNodeKind::Resource { resource, link } => {
            let mut cells = vec![
                ViewCell::from(resource.name.to_string()),
                ViewCell::new(resource.resource_type.as_str(), Tone::Faint),
                resource.path.to_string().into(),
            ];
            if *link == ResourceLink::Nested {
                cells.push(ViewCell::new("(not linked)", Tone::Faint));
            }
            cells
        }
    };
    TreeRow {
        depth: node.depth,
        cells,
    }
}

fn data(node: &ResourceTreeNode<'_>) -> Value {
    match &node.kind {
        ResourceTreeNodeKind::Project(name) => {
            json!({"depth": node.depth, "kind": "project", "name": name})
        }
        ResourceTreeNodeKind::Unlinked => {
            json!({"depth": node.depth, "kind": "unlinked", "name": null})
        }
        ResourceTreeNodeKind::Resource { resource, link } => json!({
            "depth": node.depth,
            "kind": "resource",
            "name": resource.name,
            "type": resource.resource_type,
            "path": resource.path,
            "linked": match link {
                ResourceLink::Linked => Some(true),
                ResourceLink::Nested => Some(false),
                ResourceLink::NoProject => None,
            },
        }),
    }
}
