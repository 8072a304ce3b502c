//! Moves a finished result onto the current commits of its targets; a folder is taken as it is now.
//!
//! All targets are inspected first. Then one transaction moves all of the plan's sandboxes in their
//! records and sends the plan back to Execute; the files follow, now or when the sandboxes are
//! opened next. A merged result is validated again, like at the end of Execute. If there are
//! conflicts or a sandbox was removed, the work is repeated on the new commits.

mod record;

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::rebase::{RebasedResource, RebasedWork};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{
    Phase, Plan, PlanState, PointOfNoReturn, ResourceType, ValidationSummary,
};
use tokio::task::spawn_blocking;

use self::record::RebaseWrite;
use super::ApplyService;
use super::error::{ApplyFailure, Result};
use crate::execution::{
    ExecuteOutcome, OwnedWork, base_of, interrupt_unfinished, listed_refusals, newest_summary,
    run_owned,
};
use crate::lifecycle::LifecycleError;
use crate::runs::{ClaimOutcome, RunLease};
use cleveragents_ports::sandbox::{SandboxBase, TreeId};
use cleveragents_ports::targets::{Conflict, RebaseRequest, TargetRebase};
use cleveragents_ports::{Slots, StoreError, Transaction};

#[derive(Debug, Clone, PartialEq)]
pub enum RebaseOutcome {
    /// No target has moved; nothing was written.
    Unmoved {
        plan: Plan,
        resources: Vec<RebasedResource>,
    },
    /// The result was merged and validated again.
    Rebased {
        executed: ExecuteOutcome,
        resources: Vec<RebasedResource>,
        validation: Option<ValidationSummary>,
    },
    /// There are conflicts, or a sandbox was removed. The plan is queued to be executed again on
    /// the current targets.
    Requeued {
        plan: Plan,
        resources: Vec<RebasedResource>,
        conflicts: Vec<Conflict>,
    },
    /// A target has no commit to rebase onto; nothing was written.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
}

impl RebaseOutcome {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Unmoved { plan, .. } | Self::Requeued { plan, .. } => plan,
            Self::Blocked { plan, .. } => plan,
            Self::Rebased { executed, .. } => executed.plan(),
        }
    }
}

/// A sandbox to move.
#[derive(Debug, Clone)]
struct MovedSandbox {
    record: SandboxRecord,
    base: SandboxBase,
    /// The merge with the new base. `None` if it has conflicts.
    tree: Option<TreeId>,
}

/// Combined state of all targets.
enum RebaseSurvey {
    Unmoved,
    Moved(Vec<MovedSandbox>, Vec<Conflict>),
    Blocked(Vec<Conflict>),
}

/// The plan's sandboxes and the state of their targets.
struct PlanSurvey {
    sandboxes: Vec<SandboxRecord>,
    survey: RebaseSurvey,
}

impl PlanSurvey {
    /// Returns the outcome if there is nothing to move or validate.
    fn outcome_without_move(&self, plan: Plan) -> Option<RebaseOutcome> {
        match &self.survey {
            RebaseSurvey::Moved(..) => None,
            RebaseSurvey::Blocked(conflicts) => Some(RebaseOutcome::Blocked {
                plan,
                conflicts: conflicts.clone(),
            }),
            // The result was moved, but its owner died before the validation. Validate it now.
            RebaseSurvey::Unmoved if plan.position.state() == PlanState::Processing => None,
            RebaseSurvey::Unmoved => Some(RebaseOutcome::Unmoved {
                plan,
                resources: rebased_resources(&self.sandboxes, &[]),
            }),
        }
    }
}

/// Moves results onto the current commits of their targets.
struct Rebase<'a> {
    service: &'a ApplyService,
}

impl ApplyService {
    /// Moves the plan's result onto the current commits of its targets and validates it again, or
    /// queues the plan to be executed again there. All resources move, or none.
    pub async fn rebase(&self, plan: PlanId, actor: &str) -> Result<RebaseOutcome> {
        let services = &self.services;
        let rebase = Rebase { service: self };
        let found = match rebase.finished_plan(plan).await {
            Err(ApplyFailure::NoResult { plan }) => {
                return Err(rebase.rebase_refusal(plan).await?);
            }
            found => found?,
        };
        services.require_local(plan, "plan rebase").await?;
        let plan_survey = rebase.survey_plan(plan).await?;
        let phase = found.position.phase();
        if let Some(outcome) = plan_survey.outcome_without_move(found) {
            return Ok(outcome);
        }
        let claim = services.runs.claim(plan, phase, Slots::Shared);
        let run = match claim.await? {
            ClaimOutcome::Won(run) => run,
            ClaimOutcome::Held(holder) => {
                return Err(LifecycleError::owned(holder, &services.runs).into());
            }
            ClaimOutcome::NoSlot { .. } => {
                return Err(StoreError::internal("rebase needs no slot").into());
            }
        };
        let alive = run.keep_alive();
        let moved = rebase
            .rebase_as_owner(&run, plan, (actor, plan_survey))
            .await;
        drop(alive);
        let (resources, outcome) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                if !error.is_lease_lost() {
                    services.lifecycle.release(run).await?;
                }
                return Err(error);
            }
        };
        if let Some(outcome) = outcome {
            services.lifecycle.release(run).await?;
            return Ok(outcome);
        }
        let executed = run_owned(services, run, OwnedWork::Validate).await?;
        Ok(RebaseOutcome::Rebased {
            validation: newest_summary(&services.store, executed.plan()).await?,
            executed,
            resources,
        })
    }
}

impl Rebase<'_> {
    /// Moves the plan's records. Returns `None` if the result must still be validated.
    async fn rebase_as_owner(
        &self,
        run: &RunLease,
        plan: PlanId,
        (actor, plan_survey): (&str, PlanSurvey),
    ) -> Result<(Vec<RebasedResource>, Option<RebaseOutcome>)> {
        let services = &self.service.services;
        // Read and check the plan again: another owner may have moved it before our claim.
        let plan = self.finished_plan(plan).await?;
        interrupt_unfinished(services, run).await?;
        let sandboxes = services.sandboxes_of(plan.identity.plan_id).await?;
        let plan_survey = if sandboxes == plan_survey.sandboxes {
            plan_survey
        } else {
            self.survey_plan(plan.identity.plan_id).await?
        };
        if let Some(outcome) = plan_survey.outcome_without_move(plan.clone()) {
            return Ok((Vec::new(), Some(outcome)));
        }
        let RebaseSurvey::Moved(moved, conflicts) = plan_survey.survey else {
            return Ok((rebased_resources(&sandboxes, &[]), None));
        };
        let resources = rebased_resources(&sandboxes, &moved);
        let outcome = if conflicts.is_empty() {
            RebasedWork::Merged
        } else {
            RebasedWork::Requeued
        };
        let rebase = RebaseWrite {
            services: Arc::clone(services),
            plan: plan.identity.plan_id,
            listed_refusals: listed_refusals(&services.store, &plan).await?,
            moved,
            resources: resources.clone(),
            conflicts: conflicts.clone(),
            outcome,
            actor: actor.to_owned(),
        };
        let operation = services.operation("plan.rebase");
        let plan = run.write(operation, move |tx| rebase.write(tx)).await?;
        let queued = || RebaseOutcome::Requeued {
            plan,
            resources: resources.clone(),
            conflicts,
        };
        let outcome = (outcome == RebasedWork::Requeued).then(queued);
        Ok((resources, outcome))
    }

    /// Returns the plan's sandboxes and the state of their targets.
    async fn survey_plan(&self, plan: PlanId) -> Result<PlanSurvey> {
        let sandboxes = self.service.services.sandboxes_of(plan).await?;
        let survey = self.survey(&sandboxes).await?;
        Ok(PlanSurvey { sandboxes, survey })
    }

    /// Inspects every target. Changes no sandbox.
    async fn survey(&self, sandboxes: &[SandboxRecord]) -> Result<RebaseSurvey> {
        let removed = self.service.removed_sandboxes(sandboxes).await?;
        if !removed.is_empty() {
            // Execute creates a new sandbox from the target's state at that time.
            return Ok(RebaseSurvey::Moved(Vec::new(), removed));
        }
        let (mut moved, mut conflicts, mut blocked) = (Vec::new(), Vec::new(), Vec::new());
        for record in sandboxes {
            let (Some(base), Some(tree)) = (base_of(record), record.tree.clone()) else {
                let error = format!("sandbox {} has no tree", record.id);
                return Err(StoreError::internal(error).into());
            };
            let request = RebaseRequest {
                plan: record.plan_id,
                sandbox: record.id,
                resource: record.resource_path.clone(),
                resource_type: record.resource_type,
                base,
                tree,
            };
            let targets = Arc::clone(&self.service.targets);
            let found = spawn_blocking(move || targets.rebase(&request)).await??;
            let (base, tree) = match found {
                TargetRebase::Unchanged => continue,
                TargetRebase::Blocked(found) => {
                    blocked.extend(found);
                    continue;
                }
                TargetRebase::Merged { base, tree } => (base, Some(tree)),
                TargetRebase::Conflicting {
                    base,
                    conflicts: found,
                } => {
                    conflicts.extend(found);
                    (base, None)
                }
            };
            let record = record.clone();
            moved.push(MovedSandbox { record, base, tree });
        }
        Ok(match (blocked.is_empty(), moved.is_empty()) {
            (false, _) => RebaseSurvey::Blocked(blocked),
            (true, true) => RebaseSurvey::Unmoved,
            (true, false) => RebaseSurvey::Moved(moved, conflicts),
        })
    }

    /// Returns the plan if all of its steps are done and nothing is applied, else fails.
    async fn finished_plan(&self, plan: PlanId) -> Result<Plan> {
        let load = move |tx: &mut dyn Transaction| {
            let steps = tx.newest_strategy(plan)?;
            let steps = steps.map(|it| it.strategy.steps.len());
            Ok::<_, StoreError>((tx.plan(plan)?, steps))
        };
        let (plan, steps) = self.service.services.store.read(load).await?;
        let position = plan.position;
        let is_finished = match position.phase() {
            Phase::Strategize => false,
            Phase::Execute => match position.state() {
                PlanState::Complete | PlanState::Constrained => true,
                PlanState::Processing => {
                    let done = plan
                        .last_completed_step
                        .and_then(|it| usize::try_from(it).ok());
                    done.is_some() && done == steps
                }
                _ => false,
            },
            Phase::Apply => {
                position.point_of_no_return() == PointOfNoReturn::Ahead
                    && matches!(
                        position.state(),
                        PlanState::Queued
                            | PlanState::Constrained
                            | PlanState::Errored
                            | PlanState::Unapplied
                    )
            }
        };
        if is_finished {
            Ok(plan)
        } else {
            Err(ApplyFailure::NoResult {
                plan: Box::new(plan),
            })
        }
    }

    /// Returns why a plan without a result cannot be rebased. A live owner is reported first.
    async fn rebase_refusal(&self, plan: Box<Plan>) -> Result<ApplyFailure> {
        let (id, position) = (plan.identity.plan_id, plan.position);
        if position.is_terminal() {
            return Ok(ApplyFailure::NoResult { plan });
        }
        let runs = &self.service.services.runs;
        Ok(
            match runs.claim(id, position.phase(), Slots::Shared).await? {
                ClaimOutcome::Held(holder) => LifecycleError::owned(holder, runs).into(),
                ClaimOutcome::NoSlot { .. } => ApplyFailure::NoResult { plan },
                ClaimOutcome::Won(run) => {
                    self.service.services.lifecycle.release(run).await?;
                    ApplyFailure::NoResult { plan }
                }
            },
        )
    }
}

/// Returns the old and new base of each sandbox.
fn rebased_resources(sandboxes: &[SandboxRecord], moved: &[MovedSandbox]) -> Vec<RebasedResource> {
    let resource = |record: &SandboxRecord| {
        let moved = moved.iter().find(|it| it.record.id == record.id);
        RebasedResource {
            resource: record.resource_name.clone(),
            resource_type: record.resource_type,
            from: base_of(record).and_then(|base| base_id(record, &base)),
            to: match moved {
                Some(moved) => base_id(record, &moved.base),
                None => base_of(record).and_then(|base| base_id(record, &base)),
            },
        }
    };
    sandboxes.iter().map(resource).collect()
}

/// What tells one base of a sandbox from another: its commit, or the tree of a folder.
fn base_id(record: &SandboxRecord, base: &SandboxBase) -> Option<String> {
    match record.resource_type {
        ResourceType::GitCheckout => base.commit.clone(),
        ResourceType::FsDirectory => Some(base.tree.to_string()),
    }
}
