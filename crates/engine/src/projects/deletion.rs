//! Deleting a project: never while a plan on it is under way, and never by half.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, Move, NamespacedName, Plan, Project, Resource, State};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{ProjectError, Result};
use super::{ProjectService, record};
use crate::lifecycle::KnownOwner;
use crate::lifecycle::actions::until_undisturbed;
use crate::lifecycle::commands::{live_run, move_unowned_plan};
use crate::lifecycle::moves::{Moved, Request, event};
use crate::ports::{Ids, PlanFilter, StoreError, Unit};

/// What to do with plans that are not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// They are in the way.
    Refuse,
    /// They are cancelled.
    Cancel,
}

/// What came of deleting a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deleted {
    pub project: NamespacedName,
    /// They stay registered.
    pub resources_unlinked: Vec<NamespacedName>,
    pub plans_cancelled: Vec<PlanId>,
}

/// The owners that are known to be dead or alive, by plan.
type KnownOwners = BTreeMap<PlanId, KnownOwner>;

/// A deletion with what belongs to it.
#[derive(Debug, Clone)]
struct Deletion {
    name: NamespacedName,
    force: Force,
    actor: String,
    known: KnownOwners,
}

impl ProjectService {
    /// Deletes a project with its links and rules; its resources and finished plans stay.
    ///
    /// With `Force::Cancel` plans that nobody runs are cancelled in the same commit. Those that
    /// are run can be stopped by their owners only (law 5): they are asked to, and nothing is
    /// deleted.
    pub async fn delete(&self, name: NamespacedName, force: Force, actor: &str) -> Result<Deleted> {
        let deletion = Deletion {
            known: self.known_owners(&name).await?,
            name,
            force,
            actor: actor.to_owned(),
        };
        let ids = Arc::clone(&self.ids);
        let deleted = self
            .store
            .write(self.operation("project.delete"), move |unit| {
                delete(unit, &*ids, &deletion)
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

    /// The plans that are in the way of deleting the project.
    pub async fn active_plans(&self, name: NamespacedName) -> Result<Vec<Plan>> {
        self.store
            .read(move |unit| {
                unit.project(&name)?;
                active_plans(unit, &name)
            })
            .await
    }

    async fn known_owners(&self, name: &NamespacedName) -> Result<KnownOwners> {
        let name = name.clone();
        let holders = self
            .store
            .read(move |unit| {
                let mut holders = Vec::new();
                for plan in active_plans(unit, &name)? {
                    holders.extend(unit.run_of(plan.identity.plan_id)?);
                }
                Ok::<_, ProjectError>(holders)
            })
            .await?;
        let known = holders
            .into_iter()
            .filter_map(|it| Some((it.plan, KnownOwner::of(&it, &*self.liveness)?)));
        Ok(known.collect())
    }
}

/// The project's row goes first: a plan is made while that row is held, so that afterwards every
/// plan that was made is seen, and no other can be (law 1). A refusal brings the row back.
fn delete(unit: &mut dyn Unit, ids: &dyn Ids, deletion: &Deletion) -> Result<Deleted> {
    let (project, linked) = take_away(unit, &deletion.name)?;
    let active = active_plans(unit, &deletion.name)?;
    let plans_cancelled = match deletion.force {
        _ if active.is_empty() => Vec::new(),
        Force::Refuse => {
            return Err(ProjectError::ActivePlans {
                project: project.name,
                plans: active,
            });
        }
        Force::Cancel => cancel_all(unit, ids, deletion, active)?,
    };
    let deleted = Deleted {
        project: project.name,
        resources_unlinked: linked.into_iter().map(|resource| resource.name).collect(),
        plans_cancelled,
    };
    let told = json!({
        "id": project.id,
        "name": deleted.project,
        "resources_unlinked": deleted.resources_unlinked,
        "plans_cancelled": deleted.plans_cancelled,
    });
    record(
        unit,
        &[event(EventKind::ProjectDeleted, &deletion.actor, &told)?],
    )?;
    Ok(deleted)
}

/// Deletes the row, as it is by then, and says what had been linked. The row is written before the
/// links are read, so that nobody links anything in between.
fn take_away(unit: &mut dyn Unit, name: &NamespacedName) -> Result<(Project, Vec<Resource>)> {
    let project = until_undisturbed(unit, |unit| {
        let mut project = unit.project(name)?;
        project.version = unit
            .update_project(&project)
            .map_err(|error| by_name(name, error))?;
        Ok(project)
    })?;
    let linked = unit.resources_of(name)?;
    unit.delete_project(&project)?;
    Ok((project, linked))
}

/// What was deleted just now is missed by its name, not by its id, which nobody gave.
fn by_name(name: &NamespacedName, error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { what, .. } => StoreError::NotFound {
            what,
            id: name.to_string(),
        },
        error => error,
    }
}

/// The plans on the project that may still move, newest first.
pub(super) fn active_plans(unit: &mut dyn Unit, name: &NamespacedName) -> Result<Vec<Plan>> {
    let mut active = Vec::new();
    for state in State::ALL.iter().filter(|state| !state.is_terminal()) {
        let filter = PlanFilter {
            project: Some(name.clone()),
            state: Some(*state),
            ..PlanFilter::default()
        };
        active.extend(unit.list_plans(&filter)?.plans);
    }
    active.sort_by_key(|plan| {
        let created = plan.timestamps.created_at;
        std::cmp::Reverse((created, plan.identity.plan_id))
    });
    Ok(active)
}

fn cancel_all(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    deletion: &Deletion,
    mut active: Vec<Plan>,
) -> Result<Vec<PlanId>> {
    // One order for all callers, so that two who cancel the same plans cannot wait in a circle.
    active.sort_by_key(|plan| plan.identity.plan_id);
    let (mut running, mut runs) = (Vec::new(), Vec::new());
    for plan in &active {
        let id = plan.identity.plan_id;
        let run = unit.hold_run(id)?;
        let plan = unit.plan_for_update(id)?;
        let known = deletion.known.get(&id).copied();
        if !plan.position.is_terminal() && live_run(unit, run.as_ref(), known)?.is_some() {
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
        let request = Request {
            plan: plan.identity.plan_id,
            asked: Move::Cancel,
            actor: deletion.actor.clone(),
            reason: Some(format!("project {} was deleted", deletion.name)),
        };
        match move_unowned_plan(unit, ids, &request, run.as_ref())? {
            Moved::Moved(plan) => cancelled.push(plan.identity.plan_id),
            Moved::Stands(plan) if plan.position.is_terminal() => {}
            // Past its point of no return a plan goes on, cancelled or not.
            Moved::Stands(plan) => applying.push(plan),
        }
    }
    match applying.is_empty() {
        true => Ok(cancelled),
        false => Err(ProjectError::Applying {
            project: deletion.name.clone(),
            plans: applying,
        }),
    }
}
