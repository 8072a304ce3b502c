//! Views of projects and resources, each from one consistent snapshot.

use std::collections::BTreeMap;

use cleveragents_domain::{
    AbsolutePath, Invariant, InvariantScope, NamespacedName, PlanState, Project, Resource,
};

use super::ProjectService;
use super::error::{ProjectError, Result};
use cleveragents_ports::{PlanFilter, Transaction};

/// A project with its resources and plan counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectView {
    pub project: Project,
    /// In the order in which they were linked.
    pub resources: Vec<Resource>,
    pub invariants: Vec<Invariant>,
    /// Number of plans per state; states without plans are left out.
    pub plans: BTreeMap<PlanState, u64>,
}

/// A resource and the projects it is linked to, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceView {
    pub resource: Resource,
    pub projects: Vec<NamespacedName>,
}

/// All projects with their resources, and all resources; both newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectMap {
    pub projects: Vec<(Project, Vec<Resource>)>,
    pub resources: Vec<ResourceView>,
}

impl ProjectService {
    pub async fn show(&self, name: NamespacedName) -> Result<ProjectView> {
        self.store
            .read(move |tx| {
                let project = tx.project(&name)?;
                load_view(tx, project)
            })
            .await
    }

    /// Returns all projects, newest first.
    pub async fn list(&self) -> Result<Vec<ProjectView>> {
        self.store
            .read(|tx| {
                let projects = tx.projects()?.into_iter();
                projects.map(|project| load_view(tx, project)).collect()
            })
            .await
    }

    pub async fn show_resource(&self, name: NamespacedName) -> Result<ResourceView> {
        self.store
            .read(move |tx| {
                let resource = tx.resource(&name)?;
                let projects = load_map(tx)?.projects.into_iter();
                let linked = projects.filter(|(_, linked)| linked.contains(&resource));
                let projects = linked.map(|(project, _)| project.name).collect();
                Ok::<_, ProjectError>(ResourceView { resource, projects })
            })
            .await
    }

    /// Returns the projects with a resource at `path`, or else at the nearest folder around it.
    pub async fn projects_around(&self, path: AbsolutePath) -> Result<Vec<NamespacedName>> {
        self.store
            .read(move |tx| {
                let mut next = Some(path.clone());
                while let Some(path) = next {
                    let found = tx.projects_at(&path)?;
                    if !found.is_empty() {
                        return Ok(found);
                    }
                    next = path.parent();
                }
                Ok(Vec::new())
            })
            .await
    }

    /// Returns all projects and resources.
    pub async fn project_map(&self) -> Result<ProjectMap> {
        self.store.read(load_map).await
    }
}

fn load_view(tx: &mut dyn Transaction, project: Project) -> Result<ProjectView> {
    let counts = PlanFilter {
        projects: vec![project.name.clone()],
        limit: Some(0),
        ..PlanFilter::default()
    };
    let invariants = tx.invariants_for(std::slice::from_ref(&project.name), None, None)?;
    let own = |invariant: &Invariant| matches!(&invariant.scope, InvariantScope::Project(_));
    Ok(ProjectView {
        resources: tx.resources_of(&project.name)?,
        invariants: invariants.into_iter().filter(own).collect(),
        plans: tx.list_plans(&counts)?.by_state,
        project,
    })
}

fn load_map(tx: &mut dyn Transaction) -> Result<ProjectMap> {
    let mut projects = Vec::new();
    let mut linked: BTreeMap<NamespacedName, Vec<NamespacedName>> = BTreeMap::new();
    for project in tx.projects()? {
        let resources = tx.resources_of(&project.name)?;
        for resource in &resources {
            let projects = linked.entry(resource.name.clone()).or_default();
            projects.push(project.name.clone());
        }
        projects.push((project, resources));
    }
    let resources = tx.resources()?.into_iter().map(|resource| ResourceView {
        projects: linked.remove(&resource.name).unwrap_or_default(),
        resource,
    });
    Ok(ProjectMap {
        projects,
        resources: resources.collect(),
    })
}
