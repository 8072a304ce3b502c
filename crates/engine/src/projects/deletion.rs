//! Deletes a project: never while a plan on it is active, and never partially.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::event::payloads::ProjectDeleted;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Move, NamespacedName, Plan, PlanState, Project, Resource};
use serde::{Deserialize, Serialize};

use super::error::{ProjectError, Result};
use super::{ProjectService, append_events};
use crate::journal::new_event;
use crate::lifecycle::ProvenOwner;
use crate::lifecycle::actions::retry_on_conflict;
use crate::lifecycle::commands::{live_run, move_unowned_plan};
use crate::lifecycle::moves::{PlanMoveOutcome, PlanMoveRequest};
use cleveragents_ports::{Ids, PlanFilter, StoreError, Transaction};

/// Treatment of unfinished plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivePlanPolicy {
    /// Fail.
    Refuse,
    /// Cancel them.
    Cancel,
}

/// Outcome of deleting a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeletedProject {
    pub project: NamespacedName,
    /// They stay registered.
    pub resources_unlinked: Vec<NamespacedName>,
    pub plans_cancelled: Vec<PlanId>,
}

/// The owners known to be dead or alive, by plan.
type ProvenOwnersByPlan = BTreeMap<PlanId, ProvenOwner>;

/// A deletion with the facts it needs.
#[derive(Debug, Clone)]
struct ProjectDeletionRequest {
    name: NamespacedName,
    force: ActivePlanPolicy,
    actor: String,
    proven_owners: ProvenOwnersByPlan,
}

impl ProjectService {
    /// Deletes a project with its links and rules; its resources and finished plans stay.
    ///
    /// With `ActivePlanPolicy::Cancel`, plans without a live owner are cancelled in the same
    /// commit. Running plans can only be stopped by their owners (law 5): they get a cancel
    /// request, and nothing is deleted.
    pub async fn delete(
        &self,
        name: NamespacedName,
        force: ActivePlanPolicy,
        actor: &str,
    ) -> Result<DeletedProject> {
        let deletion = ProjectDeletionRequest {
            proven_owners: self.proven_owners(&name).await?,
            name,
            force,
            actor: actor.to_owned(),
        };
        let ids = Arc::clone(&self.ids);
        let deleted = self
            .store
            .write(self.operation("project.delete"), move |tx| {
                delete_project(tx, &*ids, &deletion)
            })
            .await;
        if let Err(ProjectError::Stopping { project, plans }) = &deleted {
            let reason = format!("project {project} is to be deleted");
            for plan in plans {
                let id = plan.identity.plan_id;
                self.lifecycle.cancel(id, &reason, actor).await?;
            }
        }
        deleted
    }

    /// Returns the plans that block the deletion of the project.
    pub async fn active_plans(&self, name: NamespacedName) -> Result<Vec<Plan>> {
        self.store
            .read(move |tx| {
                tx.project(&name)?;
                active_plans(tx, &name)
            })
            .await
    }

    async fn proven_owners(&self, name: &NamespacedName) -> Result<ProvenOwnersByPlan> {
        let name = name.clone();
        let holders = self
            .store
            .read(move |tx| {
                let mut holders = Vec::new();
                for plan in active_plans(tx, &name)? {
                    holders.extend(tx.run_of(plan.identity.plan_id)?);
                }
                Ok::<_, ProjectError>(holders)
            })
            .await?;
        let known = holders
            .into_iter()
            .filter_map(|it| Some((it.plan, ProvenOwner::probe(&it, &*self.liveness)?)));
        Ok(known.collect())
    }
}

/// Deletes the project's row first. A plan is created while that row is locked, so afterwards every
/// existing plan is visible and no new one can appear (law 1). If the deletion is refused, the
/// rollback restores the row.
fn delete_project(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    deletion: &ProjectDeletionRequest,
) -> Result<DeletedProject> {
    let (project, linked) = remove_project(tx, &deletion.name)?;
    let active = active_plans(tx, &deletion.name)?;
    let plans_cancelled = match deletion.force {
        _ if active.is_empty() => Vec::new(),
        ActivePlanPolicy::Refuse => {
            return Err(ProjectError::ActivePlans {
                project: project.name,
                plans: active,
            });
        }
        ActivePlanPolicy::Cancel => cancel_all(tx, ids, deletion, active)?,
    };
    let deleted = DeletedProject {
        project: project.name,
        resources_unlinked: linked.into_iter().map(|resource| resource.name).collect(),
        plans_cancelled,
    };
    let payload = ProjectDeleted {
        id: project.id,
        name: deleted.project.clone(),
        resources_unlinked: deleted.resources_unlinked.clone(),
        plans_cancelled: deleted.plans_cancelled.clone(),
    };
    append_events(tx, &[new_event(&deletion.actor, &payload)?])?;
    Ok(deleted)
}

/// Deletes the current row and returns the linked resources. The row is written before the links
/// are read, so that nothing can be linked in between.
fn remove_project(
    tx: &mut dyn Transaction,
    name: &NamespacedName,
) -> Result<(Project, Vec<Resource>)> {
    let project = retry_on_conflict(tx, |tx| {
        let mut project = tx.project(name)?;
        project.version = tx
            .update_project(&project)
            .map_err(|error| not_found_by_name(name, error))?;
        Ok(project)
    })?;
    let linked = tx.resources_of(name)?;
    tx.delete_project(&project)?;
    Ok((project, linked))
}

/// Reports a missing project by its name, because the caller did not give an id.
fn not_found_by_name(name: &NamespacedName, error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { entity, .. } => StoreError::NotFound {
            entity,
            id: name.to_string(),
        },
        error => error,
    }
}

/// Returns the unfinished plans of the project, newest first.
pub(super) fn active_plans(tx: &mut dyn Transaction, name: &NamespacedName) -> Result<Vec<Plan>> {
    let mut active = Vec::new();
    for state in PlanState::ALL.iter().filter(|state| !state.is_terminal()) {
        let filter = PlanFilter {
            projects: vec![name.clone()],
            state: Some(*state),
            ..PlanFilter::default()
        };
        active.extend(tx.list_plans(&filter)?.plans);
    }
    active.sort_by_key(|plan| {
        let created = plan.timestamps.created_at;
        std::cmp::Reverse((created, plan.identity.plan_id))
    });
    Ok(active)
}

fn cancel_all(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    deletion: &ProjectDeletionRequest,
    mut active: Vec<Plan>,
) -> Result<Vec<PlanId>> {
    // All callers lock in the same order, so two that cancel the same plans cannot deadlock.
    active.sort_by_key(|plan| plan.identity.plan_id);
    let (mut running, mut runs) = (Vec::new(), Vec::new());
    for plan in &active {
        let id = plan.identity.plan_id;
        let run = tx.run_for_update(id)?;
        let plan = tx.plan_for_update(id)?;
        let known = deletion.proven_owners.get(&id).copied();
        if !plan.position.is_terminal() && live_run(tx, run.as_ref(), known)?.is_some() {
            running.push(plan);
        }
        runs.push(run);
    }
    if !running.is_empty() {
        return Err(ProjectError::Stopping {
            project: deletion.name.clone(),
            plans: running,
        });
    }
    let (mut cancelled, mut applying) = (Vec::new(), Vec::new());
    for (plan, run) in active.into_iter().zip(runs) {
        let request = PlanMoveRequest {
            plan: plan.identity.plan_id,
            requested: Move::Cancel,
            actor: deletion.actor.clone(),
            reason: Some(format!("project {} was deleted", deletion.name)),
        };
        match move_unowned_plan(tx, ids, &request, run.as_ref())? {
            PlanMoveOutcome::Moved(plan) => cancelled.push(plan.identity.plan_id),
            PlanMoveOutcome::Unchanged(plan) if plan.position.is_terminal() => {}
            // A plan past its point of no return continues despite the cancel.
            PlanMoveOutcome::Unchanged(plan) => applying.push(plan),
        }
    }
    if applying.is_empty() {
        Ok(cancelled)
    } else {
        Err(ProjectError::Applying {
            project: deletion.name.clone(),
            plans: applying,
        })
    }
}
