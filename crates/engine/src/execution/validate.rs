//! The end of Execute: the plan's checks and the validations attached to its resources.
//!
//! They run in parallel, each confined, on the captured result. What they leave in the tree does
//! not count: the tree is set back to what was captured. Apply reads the stored summary, and runs
//! them again only on a merge with a target that has moved.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::actor::ActorKind;
use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::validation::applicable::{
    Applicable, PlanResource, ValidationTarget, applicable,
};
use cleveragents_domain::validation::verdict::Finished;
use cleveragents_domain::{
    Attachment, AttachmentScope, Check, ErrorCategory, EventKind, Guards, Plan, StreamId,
    Timestamp, Validation, ValidationMode, ValidationResult, ValidationSource, ValidationSummary,
};
use serde_json::json;
use tokio::sync::{OwnedRwLockWriteGuard, Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::judge::{Gate, Judge, Origin};
use super::refused::{only_refusals_fail, refused_in};
use super::steps::{ActorEnd, StepWork};
use super::thinking::Thought;
use super::work::Scene;
use super::workspace::{Inside, Seat, Workspace};
use crate::journal::event;
use crate::ports::StoreError;
use crate::ports::sandbox::{SandboxError, Touched};
use crate::ports::stop::{Stop, Stopped};
use crate::recovery::{Trouble, record_error};
use crate::runs::RunLease;

/// Where the turns of an attempt to mend begin: after those of any actor's own steps.
const FIX_TURNS: u32 = 1_000_000;

/// How long a check may take that says nothing of it, in seconds.
const CHECK_TIMEOUT: u64 = 300;

impl Executor {
    /// Runs what gates, again after each attempt to fix what failed, and stores what came of it.
    pub(super) async fn validate(
        &self,
        run: &RunLease,
        plan: &Plan,
        scene: &Scene<'_>,
    ) -> Result<Validated> {
        let limit = plan.brief.automation_profile.limits.validation_retry_limit;
        let first = self.first_round(plan, limit).await?;
        let listed = self.listed_refusals(plan).await?;
        let workspace = &scene.stage.workspace;
        let mut round = first;
        loop {
            let stop = &scene.stage.runner.stop;
            let judged = self.validate_round(plan, workspace, round, stop);
            let summary = match judged.await? {
                Ok(summary) => summary,
                Err(why) => return Ok(Validated::Ended(ActorEnd::Stopped(why))),
            };
            let refused = (round, &listed[..]);
            let refused = self.list_refusals(plan, workspace, refused).await?;
            let results = summary.results.into_iter().chain(refused);
            let summary = ValidationSummary::new(results.collect());
            self.store_summary(run, plan, round, &summary).await?;
            // What was refused is for the user to decide: no attempt to mend can record it.
            if only_refusals_fail(&summary) || round >= first.saturating_add(limit) {
                return Ok(Validated::Judged(summary));
            }
            match self.fix(run, plan, scene, (round, &summary)).await? {
                Fix::Tried => round += 1,
                Fix::NotPossible => return Ok(Validated::Judged(summary)),
                Fix::Ended(end) => return Ok(Validated::Ended(end)),
            }
        }
    }

    /// Where the rounds of this word of a human begin: after those that were used up by an earlier
    /// one, so that what is tried now is not taken for what was tried then. Rounds that a dead
    /// owner did not come to the end of are gone through again.
    pub(super) async fn first_round(&self, plan: &Plan, limit: u32) -> Result<u32> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let stored = self
            .store
            .read(move |unit| unit.newest_validation_run(id, attempt))
            .await?;
        let Some(stored) = stored else { return Ok(1) };
        let summary: ValidationSummary =
            serde_json::from_value(stored).map_err(StoreError::internal)?;
        let last = summary.results.iter().map(|it| it.attempt).max();
        let of_a_word = limit.saturating_add(1);
        Ok(last.unwrap_or(0) / of_a_word * of_a_word + 1)
    }

    /// One round, unless the owner has to stop: then whatever runs is ended, and what it said does
    /// not count.
    pub(super) async fn validate_round(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
        asked: &watch::Receiver<Option<Stopped>>,
    ) -> Result<std::result::Result<ValidationSummary, Stopped>> {
        let stop = Stop::new();
        let mut asked = asked.clone();
        let mut work = pin!(self.validate_once(plan, workspace, round, &stop));
        let why = tokio::select! {
            summary = &mut work => return Ok(Ok(summary?)),
            why = asked.wait_for(Option::is_some) => why.ok().and_then(|why| *why).unwrap_or(Stopped::Cancelled),
        };
        stop.stop(why);
        work.await?;
        Ok(Err(why))
    }

    /// Lets the execution actor mend what failed, if it knows how.
    async fn fix(
        &self,
        run: &RunLease,
        plan: &Plan,
        scene: &Scene<'_>,
        (round, found): (u32, &ValidationSummary),
    ) -> Result<Fix> {
        let actor = self.actor(&plan.brief.actors.execution_actor).await?;
        let thinks = matches!(actor.kind, ActorKind::Llm(_));
        if actor.fix().is_empty() && !thinks {
            return Ok(Fix::NotPossible);
        }
        let context = self.context(run);
        // Mending comes after the last step, and its calls after all of that step's.
        let step = plan.last_completed_step.unwrap_or(1);
        self.record_failed_round(run, step, found).await?;
        let mut work = StepWork::begin(
            &context,
            (plan, &scene.stage.workspace),
            (&scene.stage.runner, &scene.stage.confirmed),
            step,
            scene.approvals,
        )
        .await?;
        work.know(&self.calls(plan.identity.plan_id).await?);
        let first = FIX_TURNS.saturating_mul(round);
        let end = match &actor.kind {
            ActorKind::Llm(llm) => {
                work.first_turn = first;
                let thought = Thought {
                    run,
                    actor: &actor.name,
                    llm,
                    scene,
                };
                self.mend(&thought, &work, (round, found)).await?
            }
            _ => work.run_steps(&actor.name, actor.fix(), first).await?,
        };
        work.close().await?;
        Ok(match end {
            // An attempt that failed is an attempt; whether it helped is asked next. One whose
            // model could not be asked is none, and says nothing about what can be mended.
            ActorEnd::Done | ActorEnd::Failed(_) => Fix::Tried,
            end => Fix::Ended(end),
        })
    }

    /// What is about to be mended is on record as an error, also when mending it helps.
    async fn record_failed_round(
        &self,
        run: &RunLease,
        step: u32,
        found: &ValidationSummary,
    ) -> Result<()> {
        let trouble = Trouble {
            category: ErrorCategory::Validation,
            message: found.obstacles(),
            step: Some(step),
            cause_chain: Vec::new(),
        };
        let (id, ids) = (run.lease().plan, Arc::clone(&self.ids));
        let actor = run.lease().owner.to_string();
        run.write(self.operation("plan.record-error"), move |unit| {
            record_error(unit, &*ids, id, &trouble, &actor)?;
            Ok(())
        })
        .await
    }

    pub(super) async fn validate_once(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
        stop: &Stop,
    ) -> Result<ValidationSummary> {
        let all = self.gates(plan, workspace).await?;
        let slots = Arc::new(Semaphore::new(self.policy.parallel_validations));
        let guards = plan.brief.automation_profile.guards.clone();
        let judging = Judging {
            round,
            stop,
            slots,
            guards,
        };
        let mut results = Vec::with_capacity(all.len());
        for seat in &workspace.seats {
            let here: Vec<Gate> = all
                .iter()
                .filter(|it| it.applicable.resource == seat.resource)
                .cloned()
                .collect();
            if !here.is_empty() {
                results.extend(self.validate_seat(seat, here, &judging).await?);
            }
        }
        for result in &mut results {
            let hide = |text: &String| self.secrets.hide(text).into_owned();
            result.message = result.message.as_ref().map(hide);
            result
                .data
                .iter_mut()
                .for_each(|it| self.secrets.hide_json(it));
        }
        Ok(ValidationSummary::new(results))
    }

    /// Everything that looks at one sandbox, at once; taken as they finish.
    async fn validate_seat(
        &self,
        seat: &Seat,
        all: Vec<Gate>,
        judging: &Judging<'_>,
    ) -> Result<Vec<ValidationResult>> {
        let round = judging.round;
        let inside = Arc::new(Arc::clone(&seat.gate).write_owned().await);
        let mut work = JoinSet::new();
        for one in all {
            let judge = Judge {
                inside: Arc::clone(&inside),
                toolbox: Arc::clone(&self.toolbox),
                processes: Arc::clone(&self.processes),
                network: self.policy.network,
                guards: judging.guards.clone(),
                stop: judging.stop.clone(),
            };
            let slots = Arc::clone(&judging.slots);
            work.spawn(async move {
                let slot = slots.acquire_owned().await;
                let judged = spawn_blocking(move || {
                    let began = Instant::now();
                    let verdict = judge.judge(&one);
                    let finished = Finished {
                        verdict,
                        attempt: round,
                        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    };
                    ValidationResult::new(&one.applicable, finished)
                });
                let judged = judged.await;
                drop(slot);
                judged
            });
        }
        let mut results = Vec::new();
        while let Some(result) = work.join_next().await {
            results.push(result??);
        }
        let inside = Arc::try_unwrap(inside).map_err(|_| ExecutionError::Lost {
            reason: "a validation still looks at its sandbox".to_owned(),
        })?;
        let stop = judging.stop.clone();
        spawn_blocking(move || set_back(inside, &stop)).await??;
        Ok(results)
    }

    /// The plan's checks and the validations attached to its resources.
    pub(super) async fn gates(&self, plan: &Plan, workspace: &Workspace) -> Result<Vec<Gate>> {
        let (id, projects) = (plan.identity.plan_id, plan.brief.projects.clone());
        let (records, attachments, validations) = self
            .store
            .read(move |unit| {
                Ok::<_, StoreError>((
                    unit.sandboxes_of(id)?,
                    unit.attachments()?,
                    unit.validations()?,
                ))
            })
            .await?;
        let resources: Vec<PlanResource> = records
            .into_iter()
            .map(|record| PlanResource {
                id: record.resource_id,
                name: record.resource_name,
            })
            .collect();
        let target = ValidationTarget {
            plan: id,
            projects: &projects,
            resources: &resources,
        };
        let validations: Vec<Validation> =
            validations.into_iter().map(|it| it.validation).collect();
        let attached = applicable(target, &attachments, &validations).map_err(|error| {
            ExecutionError::Resource {
                reason: error.to_string(),
            }
        })?;
        let gate = |applicable| Gate {
            applicable,
            origin: Origin::Attached,
        };
        let mut all: Vec<Gate> = attached.into_iter().map(gate).collect();
        for resource in resources {
            if workspace
                .seats
                .iter()
                .any(|it| it.resource == resource.name)
            {
                let checks = plan.brief.checks.iter().zip(1_u32..);
                for (check, number) in checks {
                    all.push(Gate {
                        applicable: self.check(plan, &resource, check, number)?,
                        origin: Origin::Check,
                    });
                }
            }
        }
        Ok(all)
    }

    /// A check of the action, as a required validation of this plan.
    fn check(
        &self,
        plan: &Plan,
        resource: &PlanResource,
        check: &Check,
        number: u32,
    ) -> Result<Applicable> {
        let name = format!("check/{number}");
        let name = name.parse().map_err(StoreError::internal)?;
        // Stored as a reference; the command that runs has the values themselves.
        let run = self.secrets.resolve_text(&check.run);
        let run = run.map_err(|unknown| ExecutionError::Resource {
            reason: format!("check {number} cannot be filled in: {unknown}"),
        })?;
        let validation = Validation {
            name,
            description: check.name.clone().unwrap_or_else(|| check.run.clone()),
            mode: ValidationMode::Required,
            source: ValidationSource::Run(run),
            timeout: check.timeout.unwrap_or(CHECK_TIMEOUT),
        };
        Ok(Applicable {
            resource: resource.name.clone(),
            attachment: Attachment {
                id: AttachmentId::new(self.ids.next()),
                validation: validation.name.clone(),
                resource: resource.id,
                scope: AttachmentScope::Plan(plan.identity.plan_id),
                args: std::collections::BTreeMap::new(),
                created_at: Timestamp::default(),
            },
            validation,
        })
    }

    pub(super) async fn store_summary(
        &self,
        run: &RunLease,
        plan: &Plan,
        round: u32,
        summary: &ValidationSummary,
    ) -> Result<()> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let actor = run.lease().owner.to_string();
        let summary = summary.clone();
        run.write(self.operation("plan.store-validations"), move |unit| {
            let value = serde_json::to_value(&summary).map_err(StoreError::internal)?;
            unit.put_validation_run(id, attempt, round, &value)?;
            let told = json!({
                "round": round,
                "required_passed": summary.required_passed,
                "required_failed": summary.required_failed,
                "informational_passed": summary.informational_passed,
                "informational_failed": summary.informational_failed,
            });
            let told = event(EventKind::ValidationsCompleted, &actor, &told)?;
            unit.append(StreamId::Plan(id), &[told])?;
            Ok(())
        })
        .await
    }
}

/// What the gates of one round share.
struct Judging<'a> {
    round: u32,
    stop: &'a Stop,
    slots: Arc<Semaphore>,
    guards: Guards,
}

/// What came of the gates.
pub(super) enum Validated {
    Judged(ValidationSummary),
    /// An attempt to mend stopped the work.
    Ended(ActorEnd),
}

/// What came of an attempt to mend.
enum Fix {
    Tried,
    NotPossible,
    Ended(ActorEnd),
}

/// What a validation may have left behind does not count.
fn set_back(inside: OwnedRwLockWriteGuard<Inside>, stop: &Stop) -> Result<()> {
    let mut inside = inside;
    let Inside { sandbox, tree } = &mut *inside;
    let restored = match sandbox.capture(tree, &Touched::Unknown, stop) {
        Ok(capture) if capture.tree == *tree && refused_in(&capture).is_empty() => Ok(()),
        Ok(_) | Err(SandboxError::OverLimit(_)) => sandbox.restore(tree, stop),
        Err(error) => Err(error),
    };
    match restored {
        // The next owner sets the sandbox back when it is opened.
        Ok(()) | Err(SandboxError::Stopped(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
