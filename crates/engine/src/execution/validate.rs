//! The end of Execute: runs the plan's checks and the validations attached to its resources.
//!
//! They run in parallel, each confined, on the captured result. Changes that they make to the tree
//! do not count: the tree is restored to the captured one. Apply reads the stored summary and runs
//! them again only on a merge with a target that has moved.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::actor::ActorKind;
use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::validation::applicable::{
    ApplicableValidation, PlanResource, ValidationTarget, applicable_validations,
};
use cleveragents_domain::validation::verdict::FinishedValidation;
use cleveragents_domain::{
    Attachment, AttachmentScope, Check, ErrorCategory, EventKind, Guards, Plan, StreamId,
    Timestamp, Validation, ValidationMode, ValidationResult, ValidationSource, ValidationSummary,
};
use serde_json::json;
use tokio::sync::{OwnedRwLockWriteGuard, Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};

use super::error::{ExecutionError, Result};
use super::execute_phase::StepContext;
use super::executor::Executor;
use super::llm_actor::LlmActorContext;
use super::refused_changes::{find_refused, only_refusals_fail};
use super::steps::{ActorEnd, StepWork};
use super::validation_runner::{GateOrigin, ValidationGate, ValidationRunner};
use super::workspace::{OpenSandbox, SandboxHandle, Workspace};
use crate::journal::event;
use crate::recovery::{NewErrorRecord, record_error};
use crate::runs::RunLease;
use cleveragents_ports::StoreError;
use cleveragents_ports::sandbox::{SandboxError, TouchedPaths};
use cleveragents_ports::stop::{StopReason, StopSignal};

/// First turn number of a repair attempt; larger than any turn of the actor's own steps.
const FIX_TURNS: u32 = 1_000_000;

/// Default timeout of a check, in seconds.
const CHECK_TIMEOUT: u64 = 300;

impl Executor {
    /// Runs the gates, again after each repair attempt, and stores the summary of each round.
    pub(super) async fn validate(
        &self,
        run: &RunLease,
        plan: &Plan,
        step_context: &StepContext<'_>,
    ) -> Result<ValidateOutcome> {
        let limit = plan.brief.automation_profile.limits.validation_retry_limit;
        let first = self.first_round(plan, limit).await?;
        let listed = self.listed_refusals(plan).await?;
        let workspace = &step_context.phase.workspace;
        let mut round = first;
        loop {
            let stop = &step_context.phase.runner.stop;
            let validation = self.validate_round(plan, workspace, round, stop);
            let summary = match validation.await? {
                Ok(summary) => summary,
                Err(why) => return Ok(ValidateOutcome::Ended(ActorEnd::Stopped(why))),
            };
            let refused = (round, &listed[..]);
            let refused = self.list_refusals(plan, workspace, refused).await?;
            let results = summary.results.into_iter().chain(refused);
            let summary = ValidationSummary::new(results.collect());
            self.store_summary(run, plan, round, &summary).await?;
            // The user must decide about refused changes; a repair attempt cannot record them.
            if only_refusals_fail(&summary) || round >= first.saturating_add(limit) {
                return Ok(ValidateOutcome::Completed(summary));
            }
            match self
                .try_fix(run, plan, step_context, (round, &summary))
                .await?
            {
                FixOutcome::Attempted => round += 1,
                FixOutcome::NotPossible => return Ok(ValidateOutcome::Completed(summary)),
                FixOutcome::Ended(end) => return Ok(ValidateOutcome::Ended(end)),
            }
        }
    }

    /// Returns the number of the first round for this request. It comes after all rounds that an
    /// earlier request used up, so that new repair attempts are not mistaken for earlier ones.
    /// Rounds that a dead owner did not finish are repeated.
    pub(super) async fn first_round(&self, plan: &Plan, limit: u32) -> Result<u32> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let stored = self
            .store
            .read(move |tx| tx.newest_validation_run(id, attempt))
            .await?;
        let Some(stored) = stored else { return Ok(1) };
        let summary: ValidationSummary =
            serde_json::from_value(stored).map_err(StoreError::internal)?;
        let last = summary.results.iter().map(|it| it.attempt).max();
        let rounds_per_request = limit.saturating_add(1);
        Ok(last.unwrap_or(0) / rounds_per_request * rounds_per_request + 1)
    }

    /// Runs one round. If the owner must stop, running validations are ended and their results are
    /// discarded.
    pub(super) async fn validate_round(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
        stop_receiver: &watch::Receiver<Option<StopReason>>,
    ) -> Result<std::result::Result<ValidationSummary, StopReason>> {
        let stop = StopSignal::new();
        let mut stop_receiver = stop_receiver.clone();
        let mut work = pin!(self.validate_once(plan, workspace, round, &stop));
        let why = tokio::select! {
            summary = &mut work => return Ok(Ok(summary?)),
            why = stop_receiver.wait_for(Option::is_some) => why.ok().and_then(|why| *why).unwrap_or(StopReason::Cancelled),
        };
        stop.stop(why);
        work.await?;
        Ok(Err(why))
    }

    /// Lets the execution actor repair the failures, if it has `fix` steps or a model.
    async fn try_fix(
        &self,
        run: &RunLease,
        plan: &Plan,
        step_context: &StepContext<'_>,
        (round, found): (u32, &ValidationSummary),
    ) -> Result<FixOutcome> {
        let actor = step_context.actor;
        let uses_model = matches!(actor.kind, ActorKind::Llm(_));
        if actor.fix().is_empty() && !uses_model {
            return Ok(FixOutcome::NotPossible);
        }
        let context = self.context(run);
        // A repair is recorded under the last step. Its turn numbers come after all turns of that
        // step.
        let step = plan.last_completed_step.unwrap_or(1);
        self.record_failed_round(run, step, found).await?;
        let mut work = StepWork::begin(
            &context,
            (plan, &step_context.phase.workspace),
            (&step_context.phase.runner, &step_context.phase.call_history),
            step,
            step_context.approvals,
        )
        .await?;
        work.restore_stamps(&self.tool_calls(plan.identity.plan_id).await?);
        let first = FIX_TURNS.saturating_mul(round);
        let end = match &actor.kind {
            ActorKind::Llm(llm) => {
                work.first_turn = first;
                let llm_context = LlmActorContext {
                    run,
                    actor: &actor.name,
                    llm,
                    step_context,
                };
                self.repair(&llm_context, &work, (round, found)).await?
            }
            _ => work.run_steps(&actor.name, actor.fix(), first).await?,
        };
        work.close().await?;
        Ok(match end {
            // A failed attempt still counts; the next round shows whether it helped. If the model
            // was unavailable, no attempt was made.
            ActorEnd::Done | ActorEnd::Failed(_) => FixOutcome::Attempted,
            end => FixOutcome::Ended(end),
        })
    }

    /// Records the failures as an error of the plan before the repair, so they stay in its history
    /// even if the repair succeeds.
    async fn record_failed_round(
        &self,
        run: &RunLease,
        step: u32,
        found: &ValidationSummary,
    ) -> Result<()> {
        let new_error = NewErrorRecord {
            category: ErrorCategory::Validation,
            message: found.required_failures(),
            step: Some(step),
            cause_chain: Vec::new(),
        };
        let (id, ids) = (run.lease().plan, Arc::clone(&self.ids));
        let actor = run.lease().owner.to_string();
        run.write(self.operation("plan.record-error"), move |tx| {
            record_error(tx, &*ids, id, &new_error, &actor)?;
            Ok(())
        })
        .await
    }

    pub(super) async fn validate_once(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
        stop: &StopSignal,
    ) -> Result<ValidationSummary> {
        let all = self.gates(plan, workspace).await?;
        let slots = Arc::new(Semaphore::new(self.policy.parallel_validations));
        let guards = plan.brief.automation_profile.guards.clone();
        let validation_round = ValidationRound {
            round,
            stop,
            slots,
            guards,
        };
        let mut results = Vec::with_capacity(all.len());
        for handle in &workspace.sandboxes {
            let sandbox_gates: Vec<ValidationGate> = all
                .iter()
                .filter(|it| it.applicable.resource == handle.resource)
                .cloned()
                .collect();
            if !sandbox_gates.is_empty() {
                results.extend(
                    self.validate_sandbox(handle, sandbox_gates, &validation_round)
                        .await?,
                );
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

    /// Runs all gates of one sandbox in parallel and collects results as they finish.
    async fn validate_sandbox(
        &self,
        handle: &SandboxHandle,
        all: Vec<ValidationGate>,
        validation_round: &ValidationRound<'_>,
    ) -> Result<Vec<ValidationResult>> {
        let round = validation_round.round;
        let open_sandbox = Arc::new(Arc::clone(&handle.lock).write_owned().await);
        let mut work = JoinSet::new();
        for one in all {
            let runner = ValidationRunner {
                open_sandbox: Arc::clone(&open_sandbox),
                toolbox: Arc::clone(&self.toolbox),
                processes: Arc::clone(&self.processes),
                network: self.policy.network,
                guards: validation_round.guards.clone(),
                stop: validation_round.stop.clone(),
            };
            let slots = Arc::clone(&validation_round.slots);
            work.spawn(async move {
                let slot = slots.acquire_owned().await;
                let validation = spawn_blocking(move || {
                    let began = Instant::now();
                    let verdict = runner.validate(&one);
                    let finished = FinishedValidation {
                        verdict,
                        attempt: round,
                        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    };
                    ValidationResult::new(&one.applicable, finished)
                });
                let validation = validation.await;
                drop(slot);
                validation
            });
        }
        let mut results = Vec::new();
        while let Some(result) = work.join_next().await {
            results.push(result??);
        }
        let open_sandbox = Arc::try_unwrap(open_sandbox).map_err(|_| ExecutionError::Internal {
            reason: "a validation still reads its sandbox".to_owned(),
        })?;
        let stop = validation_round.stop.clone();
        spawn_blocking(move || reset_sandbox(open_sandbox, &stop)).await??;
        Ok(results)
    }

    /// Returns the plan's checks and the validations attached to its resources.
    pub(super) async fn gates(
        &self,
        plan: &Plan,
        workspace: &Workspace,
    ) -> Result<Vec<ValidationGate>> {
        let (id, projects) = (plan.identity.plan_id, plan.brief.projects.clone());
        let (records, attachments, validations) = self
            .store
            .read(move |tx| {
                Ok::<_, StoreError>((tx.sandboxes_of(id)?, tx.attachments()?, tx.validations()?))
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
        let attached =
            applicable_validations(target, &attachments, &validations).map_err(|error| {
                ExecutionError::Resource {
                    reason: error.to_string(),
                }
            })?;
        let gate = |applicable| ValidationGate {
            applicable,
            origin: GateOrigin::Attached,
        };
        let mut all: Vec<ValidationGate> = attached.into_iter().map(gate).collect();
        for resource in resources {
            if workspace
                .sandboxes
                .iter()
                .any(|it| it.resource == resource.name)
            {
                let checks = plan.brief.checks.iter().zip(1_u32..);
                for (check, number) in checks {
                    all.push(ValidationGate {
                        applicable: self.check_validation(plan, &resource, check, number)?,
                        origin: GateOrigin::Check,
                    });
                }
            }
        }
        Ok(all)
    }

    /// Converts a check of the action into a required validation of this plan.
    fn check_validation(
        &self,
        plan: &Plan,
        resource: &PlanResource,
        check: &Check,
        number: u32,
    ) -> Result<ApplicableValidation> {
        let name = format!("check/{number}");
        let name = name.parse().map_err(StoreError::internal)?;
        // The command is stored with references to secrets. The command that runs gets the values.
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
        Ok(ApplicableValidation {
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
        run.write(self.operation("plan.store-validations"), move |tx| {
            let value = serde_json::to_value(&summary).map_err(StoreError::internal)?;
            tx.put_validation_run(id, attempt, round, &value)?;
            let payload = json!({
                "round": round,
                "required_passed": summary.required_passed,
                "required_failed": summary.required_failed,
                "informational_passed": summary.informational_passed,
                "informational_failed": summary.informational_failed,
            });
            let new_event = event(EventKind::ValidationsCompleted, &actor, &payload)?;
            tx.append(StreamId::Plan(id), &[new_event])?;
            Ok(())
        })
        .await
    }
}

/// Shared by all gates of one round.
struct ValidationRound<'a> {
    round: u32,
    stop: &'a StopSignal,
    slots: Arc<Semaphore>,
    guards: Guards,
}

pub(super) enum ValidateOutcome {
    Completed(ValidationSummary),
    /// A repair attempt ended the work.
    Ended(ActorEnd),
}

enum FixOutcome {
    Attempted,
    NotPossible,
    Ended(ActorEnd),
}

/// Removes changes that a validation made to the tree.
fn reset_sandbox(
    open_sandbox: OwnedRwLockWriteGuard<OpenSandbox>,
    stop: &StopSignal,
) -> Result<()> {
    let mut open_sandbox = open_sandbox;
    let OpenSandbox { sandbox, tree } = &mut *open_sandbox;
    let restored = match sandbox.capture(tree, &TouchedPaths::Unknown, stop) {
        Ok(capture) if capture.tree == *tree && find_refused(&capture).is_empty() => Ok(()),
        Ok(_) | Err(SandboxError::OverLimit(_)) => sandbox.restore(tree, stop),
        Err(error) => Err(error),
    };
    match restored {
        // If stopped, the next owner restores the sandbox when it opens it.
        Ok(()) | Err(SandboxError::Stopped(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
