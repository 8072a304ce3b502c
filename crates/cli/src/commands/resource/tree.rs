//! `agents resource tree`

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::StoreError;
use cleveragents_engine::projects::{Map, ProjectError, ResourceView};
use serde_json::{Value, json};

use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, Twig, View};

/// Show projects, their resources, and which resources are inside others
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource tree
  agents resource tree local/library")]
pub struct Tree {
    /// Only this resource and what is inside it
    name: Option<String>,
}

impl Tree {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = self
            .name
            .as_deref()
            .map(|name| names::name("resource", name));
        let name = name.transpose()?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let map = wired.wait(wired.projects().map())?;
        let nodes = match name {
            Some(name) => nodes_below(&map, &name)?,
            None => all_nodes(&map),
        };
        Ok(answer(&nodes))
    }
}

/// One line of the tree.
struct Node<'a> {
    depth: usize,
    what: What<'a>,
}

enum What<'a> {
    Project(&'a NamespacedName),
    /// Whoever stands below is linked to no project.
    Unlinked,
    Resource {
        resource: &'a Resource,
        link: Link,
    },
}

/// Whether a resource is there because it is linked or because it is inside one that is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Linked,
    OnlyInside,
    /// No project stands above.
    NotAsked,
}

/// Which resources are directly inside which, by their paths.
struct Nesting<'a> {
    inside: BTreeMap<&'a NamespacedName, Vec<&'a Resource>>,
    outer: BTreeMap<&'a NamespacedName, &'a Resource>,
}

impl<'a> Nesting<'a> {
    /// Paths in order come after those they are inside of, so one pass with the way down to the
    /// last of them finds every nearest.
    fn of(resources: &'a [ResourceView]) -> Self {
        let mut sorted: Vec<&Resource> = resources.iter().map(|view| &view.resource).collect();
        let components = |resource: &Resource| -> Vec<Vec<u8>> {
            let parts = resource.path.as_bytes().split(|byte| *byte == b'/');
            parts.map(<[u8]>::to_vec).collect()
        };
        sorted.sort_by_cached_key(|resource| components(resource));
        let mut nesting = Self {
            inside: BTreeMap::new(),
            outer: BTreeMap::new(),
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
                    .inside
                    .entry(&outer.name)
                    .or_default()
                    .push(resource);
                nesting.outer.insert(&resource.name, outer);
            }
            way.push(resource);
        }
        nesting
    }

    /// Whether one of `linked` has this resource inside.
    fn is_below(&self, resource: &Resource, linked: &BTreeSet<&NamespacedName>) -> bool {
        let mut outer = self.outer.get(&resource.name);
        while let Some(resource) = outer {
            if linked.contains(&resource.name) {
                return true;
            }
            outer = self.outer.get(&resource.name);
        }
        false
    }

    /// The resource and everything inside it.
    fn add(
        &self,
        nodes: &mut Vec<Node<'a>>,
        (depth, top): (usize, &'a Resource),
        linked: Option<&BTreeSet<&NamespacedName>>,
    ) {
        let mut open = vec![(depth, top)];
        while let Some((depth, resource)) = open.pop() {
            let link = match linked.map(|linked| linked.contains(&resource.name)) {
                Some(true) => Link::Linked,
                Some(false) => Link::OnlyInside,
                None => Link::NotAsked,
            };
            let what = What::Resource { resource, link };
            nodes.push(Node { depth, what });
            let inside = self.inside.get(&resource.name).into_iter().flatten();
            open.extend(inside.rev().map(|inner| (depth + 1, *inner)));
        }
    }
}

fn all_nodes(map: &Map) -> Vec<Node<'_>> {
    let nesting = Nesting::of(&map.resources);
    let mut nodes = Vec::new();
    for (project, resources) in &map.projects {
        let what = What::Project(&project.name);
        nodes.push(Node { depth: 0, what });
        let linked: BTreeSet<_> = resources.iter().map(|resource| &resource.name).collect();
        let known = map.resources.iter().map(|view| &view.resource);
        let known: BTreeMap<_, _> = known.map(|resource| (&resource.name, resource)).collect();
        for resource in resources.iter().filter_map(|one| known.get(&one.name)) {
            if !nesting.is_below(resource, &linked) {
                nesting.add(&mut nodes, (1, resource), Some(&linked));
            }
        }
    }
    let alone = |view: &&ResourceView| {
        view.projects.is_empty() && !nesting.outer.contains_key(&view.resource.name)
    };
    let alone: Vec<&ResourceView> = map.resources.iter().filter(alone).collect();
    if !alone.is_empty() {
        nodes.push(Node {
            depth: 0,
            what: What::Unlinked,
        });
    }
    for view in alone {
        nesting.add(&mut nodes, (1, &view.resource), None);
    }
    nodes
}

fn nodes_below<'a>(map: &'a Map, name: &NamespacedName) -> Result<Vec<Node<'a>>, Failure> {
    let found = map
        .resources
        .iter()
        .find(|view| view.resource.name == *name);
    let Some(found) = found else {
        let missing = StoreError::NotFound {
            what: "resource",
            id: name.to_string(),
        };
        return Err(ProjectError::from(missing).into());
    };
    let mut nodes = Vec::new();
    Nesting::of(&map.resources).add(&mut nodes, (0, &found.resource), None);
    Ok(nodes)
}

fn answer(nodes: &[Node<'_>]) -> Answer {
    let json = json!({"tree": nodes.iter().map(data).collect::<Vec<_>>()});
    let view = match nodes.is_empty() {
        true => View::new().text("There is no project and no resource."),
        false => View::new().tree("Resources", nodes.iter().map(twig)),
    };
    let answer = Answer::new(json, view);
    match nodes.is_empty() {
        true => answer.say(Level::Hint, "agents project create NAME --path DIR"),
        false => answer,
    }
}

fn twig(node: &Node<'_>) -> Twig {
    let cells = match &node.what {
        What::Project(name) => vec![Cell::new(name.to_string(), Tone::Strong)],
        What::Unlinked => vec![Cell::new("(in no project)", Tone::Faint)],
        What::Resource { resource, link } => {
            let mut cells = vec![
                Cell::from(resource.name.to_string()),
                Cell::new(resource.resource_type.as_str(), Tone::Faint),
                resource.path.to_string().into(),
            ];
            if *link == Link::OnlyInside {
                cells.push(Cell::new("(not linked)", Tone::Faint));
            }
            cells
        }
    };
    Twig {
        depth: node.depth,
        cells,
    }
}

fn data(node: &Node<'_>) -> Value {
    match &node.what {
        What::Project(name) => json!({"depth": node.depth, "kind": "project", "name": name}),
        What::Unlinked => json!({"depth": node.depth, "kind": "unlinked", "name": null}),
        What::Resource { resource, link } => json!({
            "depth": node.depth,
            "kind": "resource",
            "name": resource.name,
            "type": resource.resource_type,
            "path": resource.path,
            "linked": match link {
                Link::Linked => Some(true),
                Link::OnlyInside => Some(false),
                Link::NotAsked => None,
            },
        }),
    }
}
