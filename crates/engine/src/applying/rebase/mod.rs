//! Moves a finished result onto the current commits of its targets.
//!
//! Every target is looked at first. Then one transaction moves all of the plan's sandboxes on
//! record and sends the plan back to Execute; the files follow, now or whenever the sandboxes are
//! opened next. A result that could be merged is validated again, as the end of Execute. Where the
//! plan and a target changed the same, or a sandbox was removed, the work is done again on the new
//! commits.

mod record;

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{
    NamespacedName, Phase, Plan, PlanState, PointOfNoReturn, ResourceType, ValidationSummary,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use self::record::{RebaseWrite, RebasedWork};
use super::ApplyService;
use super::error::{ApplyFailure, Result};
use crate::execution::{ExecuteOutcome, OwnedWork, base_of};
use crate::lifecycle::LifecycleError;
use crate::ports::sandbox::{SandboxBase, TreeId};
use crate::ports::targets::{Conflict, RebaseRequest, TargetRebase};
use crate::ports::{Slots, StoreError, Transaction};
use crate::runs::{ClaimOutcome, RunLease};

/// A resource of a plan, and where its sandbox began and begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebasedResource {
    pub resource: NamespacedName,
    pub resource_type: ResourceType,
    /// The commit the result stood on; none of a folder or before the first commit.
    pub from: Option<String>,
    /// The commit it stands on now.
    pub to: Option<String>,
}

/// What came of a rebase.
#[derive(Debug, Clone, PartialEq)]
pub enum RebaseOutcome {
    /// No target has moved; nothing was written.
    Unmoved {
        plan: Plan,
        resources: Vec<RebasedResource>,
    },
    /// The result is merged, and was validated again.
    Rebased {
        executed: ExecuteOutcome,
        resources: Vec<RebasedResource>,
        validation: Option<ValidationSummary>,
    },
    /// The plan and a target changed the same, or a sandbox was removed: the plan is queued to be
    /// executed again on the targets as they are now.
    Requeued {
        plan: Plan,
        resources: Vec<RebasedResource>,
        conflicts: Vec<Conflict>,
    },
    /// A target has nothing to move onto; nothing was written.
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

/// A sandbox that is to be moved.
#[derive(Debug, Clone)]
struct MovedSandbox {
    record: SandboxRecord,
    base: SandboxBase,
    /// The merge with the new base; none where that has conflicts.
    tree: Option<TreeId>,
}

/// What all targets say together.
enum RebaseSurvey {
    Unmoved,
    Moved(Vec<MovedSandbox>, Vec<Conflict>),
    Blocked(Vec<Conflict>),
}

/// The plan's sandboxes, and what their targets say.
struct PlanSurvey {
    sandboxes: Vec<SandboxRecord>,
    survey: RebaseSurvey,
}

impl PlanSurvey {
    /// The answer, if nothing is to be moved or validated.
    fn outcome_without_move(&self, plan: Plan) -> Option<RebaseOutcome> {
        match &self.survey {
            RebaseSurvey::Moved(..) => None,
            RebaseSurvey::Blocked(conflicts) => Some(RebaseOutcome::Blocked {
                plan,
                conflicts: conflicts.clone(),
            }),
            // One that was moved and not validated, because its owner died, is validated now.
            RebaseSurvey::Unmoved if plan.position.state() == PlanState::Processing => None,
            RebaseSurvey::Unmoved => Some(RebaseOutcome::Unmoved {
                plan,
                resources: rebased_resources(&self.sandboxes, &[]),
            }),
        }
    }
}

impl ApplyService {
    /// Moves the plan's result onto the current commits of its targets and validates it again, or
    /// queues the plan to be executed again there. All of its resources move, or none does.
    pub async fn rebase(&self, plan: PlanId, actor: &str) -> Result<RebaseOutcome> {
        let executor = &self.executor;
        let found = match self.finished_plan(plan).await {
            Err(ApplyFailure::NoResult { plan }) => return Err(self.rebase_refusal(plan).await?),
            found => found?,
        };
        executor.require_local(plan, "plan rebase").await?;
        let plan_survey = self.survey_plan(plan).await?;
        let phase = found.position.phase();
        if let Some(outcome) = plan_survey.outcome_without_move(found) {
            return Ok(outcome);
        }
        let claim = executor.runs.claim(plan, phase, Slots::Shared);
        let run = match claim.await? {
            ClaimOutcome::Won(run) => run,
            ClaimOutcome::Held(holder) => return Err(LifecycleError::Owned { holder }.into()),
            ClaimOutcome::NoSlot { .. } => {
                return Err(StoreError::internal("rebase needs no slot").into());
            }
        };
        let alive = run.keep_alive();
        let moved = self.rebase_as_owner(&run, plan, (actor, plan_survey)).await;
        drop(alive);
        let (resources, outcome) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                if !error.is_lease_lost() {
                    executor.lifecycle.release(run).await?;
                }
                return Err(error);
            }
        };
        if let Some(outcome) = outcome {
            executor.lifecycle.release(run).await?;
            return Ok(outcome);
        }
        let executed = executor.run_owned(run, OwnedWork::Validate).await?;
        Ok(RebaseOutcome::Rebased {
            validation: self.newest_summary(executed.plan()).await?,
            executed,
            resources,
        })
    }

    /// Moves the plan on record; nothing is answered where it is still to be validated.
    async fn rebase_as_owner(
        &self,
        run: &RunLease,
        plan: PlanId,
        (actor, plan_survey): (&str, PlanSurvey),
    ) -> Result<(Vec<RebasedResource>, Option<RebaseOutcome>)> {
        let executor = &self.executor;
        // Whoever moved it meanwhile had its run.
        let plan = self.finished_plan(plan).await?;
        executor.undo_unfinished(run).await?;
        let sandboxes = executor.sandboxes_of(plan.identity.plan_id).await?;
        let plan_survey = match sandboxes == plan_survey.sandboxes {
            true => plan_survey,
            false => self.survey_plan(plan.identity.plan_id).await?,
        };
        if let Some(outcome) = plan_survey.outcome_without_move(plan.clone()) {
            return Ok((Vec::new(), Some(outcome)));
        }
        let RebaseSurvey::Moved(moved, conflicts) = plan_survey.survey else {
            return Ok((rebased_resources(&sandboxes, &[]), None));
        };
        let resources = rebased_resources(&sandboxes, &moved);
        let outcome = match conflicts.is_empty() {
            true => RebasedWork::Merged,
            false => RebasedWork::Requeued,
        };
        let rebase = RebaseWrite {
            executor: executor.clone(),
            plan: plan.identity.plan_id,
            listed_refusals: executor.listed_refusals(&plan).await?,
            moved,
            resources: resources.clone(),
            conflicts: conflicts.clone(),
            outcome,
            actor: actor.to_owned(),
        };
        let operation = executor.operation("plan.rebase");
        let plan = run.write(operation, move |tx| rebase.write(tx)).await?;
        let queued = || RebaseOutcome::Requeued {
            plan,
            resources: resources.clone(),
            conflicts,
        };
        let outcome = (outcome == RebasedWork::Requeued).then(queued);
        Ok((resources, outcome))
    }

    /// Where the plan's sandboxes and their targets are.
    async fn survey_plan(&self, plan: PlanId) -> Result<PlanSurvey> {
        let sandboxes = self.executor.sandboxes_of(plan).await?;
        let survey = self.survey(&sandboxes).await?;
        Ok(PlanSurvey { sandboxes, survey })
    }

    /// Asks every target where it is; nothing of a sandbox changes.
    async fn survey(&self, sandboxes: &[SandboxRecord]) -> Result<RebaseSurvey> {
        let removed = self.removed_sandboxes(sandboxes).await?;
        if !removed.is_empty() {
            // Execute makes a new sandbox of the target as it is then.
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
            let targets = Arc::clone(&self.targets);
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

    /// The plan, if all of its steps are done and nothing of it is applied.
    async fn finished_plan(&self, plan: PlanId) -> Result<Plan> {
        let load = move |tx: &mut dyn Transaction| {
            let steps = tx.newest_strategy(plan)?;
            let steps = steps.map(|it| it.strategy.steps.len());
            Ok::<_, StoreError>((tx.plan(plan)?, steps))
        };
        let (plan, steps) = self.executor.store.read(load).await?;
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
        match is_finished {
            true => Ok(plan),
            false => Err(ApplyFailure::NoResult {
                plan: Box::new(plan),
            }),
        }
    }

    /// Why a plan without a result cannot be rebased: a process that is at work on it comes first.
    async fn rebase_refusal(&self, plan: Box<Plan>) -> Result<ApplyFailure> {
        let (id, position) = (plan.identity.plan_id, plan.position);
        if position.is_terminal() {
            return Ok(ApplyFailure::NoResult { plan });
        }
        let runs = &self.executor.runs;
        Ok(
            match runs.claim(id, position.phase(), Slots::Shared).await? {
                ClaimOutcome::Held(holder) => LifecycleError::Owned { holder }.into(),
                ClaimOutcome::NoSlot { .. } => ApplyFailure::NoResult { plan },
                ClaimOutcome::Won(run) => {
                    self.executor.lifecycle.release(run).await?;
                    ApplyFailure::NoResult { plan }
                }
            },
        )
    }

    /// What the newest validations of the plan's attempt said.
    async fn newest_summary(&self, plan: &Plan) -> Result<Option<ValidationSummary>> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let read = move |tx: &mut dyn Transaction| tx.newest_validation_run(id, attempt);
        let stored = self.executor.store.read(read).await?;
        let summary = stored.map(serde_json::from_value).transpose();
        Ok(summary.map_err(StoreError::internal)?)
    }
}

/// Where each sandbox began, and begins from now on.
fn rebased_resources(sandboxes: &[SandboxRecord], moved: &[MovedSandbox]) -> Vec<RebasedResource> {
    let resource = |record: &SandboxRecord| {
        let moved = moved.iter().find(|it| it.record.id == record.id);
        RebasedResource {
            resource: record.resource_name.clone(),
            resource_type: record.resource_type,
            from: record.base_commit.clone(),
            to: match moved {
                Some(moved) => moved.base.commit.clone(),
                None => record.base_commit.clone(),
            },
        }
    };
    sandboxes.iter().map(resource).collect()
}
