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
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{
    Phase, Plan, PlanState, PointOfNoReturn, ResourceType, ValidationSummary,
};
use tokio::task::spawn_blocking;

use self::record::RebaseWrite;
use super::ApplyService;
use super::error::{ApplyFailure, Result};
use crate::execution::{
    ExecuteOutcome, LocalOperation, Owned, PlanRun, StoppableWork, base_of, claim_run,
    interrupt_unfinished, listed_refusals, newest_summary, own_plan, run_stoppable,
};
use crate::lifecycle::LifecycleError;
use crate::runs::ClaimOutcome;
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
        services.require_local(plan, LocalOperation::Rebase).await?;
        let plan_survey = rebase.survey_plan(plan).await?;
        let phase = found.position.phase();
        if let Some(outcome) = plan_survey.outcome_without_move(found) {
            return Ok(outcome);
        }
        let lease = claim_run(services, plan, phase).await?;
        let rebased = own_plan(services, lease, async |run: &mut PlanRun| {
            rebase.rebase_owned(run, actor, plan_survey).await
        });
        let Owned { outcome, cancelled } = rebased.await?;
        Ok(match (outcome, cancelled) {
            (
                RebaseOutcome::Rebased {
                    resources,
                    validation,
                    ..
                },
                Some(plan),
            ) => RebaseOutcome::Rebased {
                executed: ExecuteOutcome::Cancelled(plan),
                resources,
                validation,
            },
            (outcome, _) => outcome,
        })
    }
}

impl Rebase<'_> {
    /// Moves the plan's records, then validates a merged result.
    async fn rebase_owned(
        &self,
        run: &mut PlanRun,
        actor: &str,
        plan_survey: PlanSurvey,
    ) -> Result<RebaseOutcome> {
        let services = &self.service.services;
        // Check again: another owner may have moved the plan before our claim.
        let plan = require_finished(run.plan.clone(), run.strategy.as_ref())?;
        interrupt_unfinished(services, &run.lease).await?;
        let sandboxes = services.sandboxes_of(plan.identity.plan_id).await?;
        let plan_survey = if sandboxes == plan_survey.sandboxes {
            plan_survey
        } else {
            self.survey_plan(plan.identity.plan_id).await?
        };
        if let Some(outcome) = plan_survey.outcome_without_move(plan) {
            return Ok(outcome);
        }
        let RebaseSurvey::Moved(moved, conflicts) = plan_survey.survey else {
            return self.validate(run, rebased_resources(&sandboxes, &[])).await;
        };
        let resources = rebased_resources(&sandboxes, &moved);
        let work = if conflicts.is_empty() {
            RebasedWork::Merged
        } else {
            RebasedWork::Requeued
        };
        let rebase = RebaseWrite {
            services: Arc::clone(services),
            plan: run.plan.identity.plan_id,
            listed_refusals: listed_refusals(&services.store, &run.plan).await?,
            moved,
            resources: resources.clone(),
            conflicts: conflicts.clone(),
            outcome: work,
            actor: actor.to_owned(),
        };
        let operation = services.operation("plan.rebase");
        let rebased = run
            .lease
            .write(operation, move |tx| rebase.write(tx))
            .await?;
        run.plan = rebased.plan;
        match work {
            RebasedWork::Merged => {
                rebased.calls.iter().for_each(|it| run.calls.record(it));
                self.validate(run, resources).await
            }
            RebasedWork::Requeued => {
                run.calls.undo_after(0);
                Ok(RebaseOutcome::Requeued {
                    plan: run.plan.clone(),
                    resources,
                    conflicts,
                })
            }
        }
    }

    /// Validates a result that was moved, as the plan's owner.
    async fn validate(
        &self,
        run: &mut PlanRun,
        resources: Vec<RebasedResource>,
    ) -> Result<RebaseOutcome> {
        let executed = run_stoppable(run, StoppableWork::Validate).await?;
        let store = &self.service.services.store;
        Ok(RebaseOutcome::Rebased {
            validation: newest_summary(store, executed.plan()).await?,
            executed,
            resources,
        })
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

    /// Reads the plan. Fails unless it is finished and nothing is applied.
    async fn finished_plan(&self, plan: PlanId) -> Result<Plan> {
        let load = move |tx: &mut dyn Transaction| {
            Ok::<_, StoreError>((tx.plan(plan)?, tx.newest_strategy(plan)?))
        };
        let (plan, strategy) = self.service.services.store.read(load).await?;
        require_finished(plan, strategy.as_ref())
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

/// Returns the plan if all steps of its newest strategy are done and nothing is applied, else fails.
fn require_finished(plan: Plan, strategy: Option<&StrategyRecord>) -> Result<Plan> {
    let position = plan.position;
    let is_finished = match position.phase() {
        Phase::Strategize => false,
        Phase::Execute => match position.state() {
            PlanState::Complete | PlanState::Constrained => true,
            PlanState::Processing => {
                let done = plan.last_completed_step;
                let done = done.and_then(|it| usize::try_from(it).ok());
                done.is_some() && done == strategy.map(|it| it.strategy.steps.len())
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
        let plan = Box::new(plan);
        Err(ApplyFailure::NoResult { plan })
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

/// Returns the identity of a sandbox's base: its commit, or the tree of a folder.
fn base_id(record: &SandboxRecord, base: &SandboxBase) -> Option<String> {
    match record.resource_type {
        ResourceType::GitCheckout => base.commit.clone(),
        ResourceType::FsDirectory => Some(base.tree.to_string()),
    }
}
