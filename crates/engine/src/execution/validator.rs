//! Runs the checks and validations of a plan on its captured result.
//!
//! They run in parallel, each confined. Changes that they make to the tree do not count: the tree
//! is restored to the captured one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::validation::applicable::{
    ApplicableValidation, PlanResource, ValidationTarget, applicable_validations,
};
use cleveragents_domain::validation::verdict::{FinishedValidation, ValidationVerdict};
use cleveragents_domain::{
    Attachment, AttachmentScope, Check, Guards, Plan, Timestamp, Validation, ValidationMode,
    ValidationResult, ValidationSource, ValidationSummary,
};
use tokio::sync::{OwnedRwLockWriteGuard, Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};

use super::error::{ExecutionError, Result};
use super::refused_changes::find_refused;
use super::services::EngineServices;
use super::validation_runner::{GateOrigin, ValidationGate, ValidationRunner};
use super::workspace::{OpenSandbox, SandboxHandle, Workspace};
use cleveragents_ports::StoreError;
use cleveragents_ports::sandbox::{SandboxError, TouchedPaths};
use cleveragents_ports::stop::{StopReason, StopSignal};

/// Default timeout of a check, in seconds.
const CHECK_TIMEOUT: u64 = 300;

/// Runs the validations of one plan.
pub(super) struct Validator<'a> {
    pub(super) services: &'a EngineServices,
    pub(super) plan: &'a Plan,
}

impl Validator<'_> {
    /// Runs one round. If the owner must stop, running validations are ended and their results are
    /// discarded.
    pub(super) async fn validate_round(
        &self,
        workspace: &Workspace,
        round: u32,
        stop_receiver: &watch::Receiver<Option<StopReason>>,
    ) -> Result<std::result::Result<ValidationSummary, StopReason>> {
        let stop = StopSignal::new();
        let mut stop_receiver = stop_receiver.clone();
        let mut work = pin!(self.validate_once(workspace, round, &stop));
        let why = tokio::select! {
            summary = &mut work => return Ok(Ok(summary?)),
            why = stop_receiver.wait_for(Option::is_some) => why.ok().and_then(|why| *why).unwrap_or(StopReason::Cancelled),
        };
        // The work is awaited after the signal: its processes must be gone before the sandbox is
        // used again.
        stop.stop(why);
        work.await?;
        Ok(Err(why))
    }

    async fn validate_once(
        &self,
        workspace: &Workspace,
        round: u32,
        stop: &StopSignal,
    ) -> Result<ValidationSummary> {
        let all = self.gates(workspace).await?;
        // One limit for all sandboxes of the round, because they share the machine.
        let slots = Arc::new(Semaphore::new(self.services.policy.parallel_validations));
        let guards = self.plan.brief.automation_profile.guards.clone();
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
            // The output of a command may print a secret, and results are stored.
            let mask = |text: &String| self.services.secrets.mask(text).into_owned();
            result.message = result.message.as_ref().map(mask);
            result
                .data
                .iter_mut()
                .for_each(|it| self.services.secrets.mask_json(it));
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
        // Exclusive for the whole round: validations may change files, and calls must not see that.
        let open_sandbox = Arc::new(Arc::clone(&handle.lock).write_owned().await);
        let mut work = JoinSet::new();
        for one in all {
            let runner = ValidationRunner {
                open_sandbox: Arc::clone(&open_sandbox),
                toolbox: Arc::clone(&self.services.toolbox),
                processes: Arc::clone(&self.services.processes),
                network: self.services.policy.network,
                guards: validation_round.guards.clone(),
                stop: validation_round.stop.clone(),
            };
            let slots = Arc::clone(&validation_round.slots);
            work.spawn(async move {
                // Taken before the blocking thread, so that waiting validations hold none.
                let slot = slots.acquire_owned().await;
                let validation = spawn_blocking(move || {
                    let began = Instant::now();
                    let verdict = name_check(&one, runner.validate(&one));
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
        // The tree must be the captured one before the lock is released.
        spawn_blocking(move || reset_sandbox(open_sandbox, &stop)).await??;
        Ok(results)
    }

    /// Returns the plan's checks and the validations attached to the resources of the workspace.
    pub(super) async fn gates(&self, workspace: &Workspace) -> Result<Vec<ValidationGate>> {
        let plan = self.plan;
        let (id, projects) = (plan.identity.plan_id, plan.brief.projects.clone());
        let (attachments, validations) = self
            .services
            .store
            .read(move |tx| Ok::<_, StoreError>((tx.attachments()?, tx.validations()?)))
            .await?;
        let resources = workspace.sandboxes.iter().map(|handle| PlanResource {
            id: handle.resource_id,
            name: handle.resource.clone(),
        });
        let resources: Vec<PlanResource> = resources.collect();
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
            let checks = plan.brief.checks.iter().zip(1_u32..);
            for (check, number) in checks {
                all.push(ValidationGate {
                    applicable: self.check_validation(&resource, check, number)?,
                    origin: GateOrigin::Check,
                });
            }
        }
        Ok(all)
    }

    /// Converts a check of the action into a required validation of this plan.
    fn check_validation(
        &self,
        resource: &PlanResource,
        check: &Check,
        number: u32,
    ) -> Result<ApplicableValidation> {
        let name = format!("check/{number}");
        let name = name.parse().map_err(StoreError::internal)?;
        // The command is stored with references to secrets. The command that runs gets the values.
        let run = self.services.secrets.resolve_text(&check.run);
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
                id: AttachmentId::new(self.services.ids.next()),
                validation: validation.name.clone(),
                resource: resource.id,
                scope: AttachmentScope::Plan(self.plan.identity.plan_id),
                args: std::collections::BTreeMap::new(),
                created_at: Timestamp::default(),
            },
            validation,
        })
    }
}

/// Names a failed check of the action in its message: by its name, or by its command. Its number
/// alone says little.
fn name_check(gate: &ValidationGate, verdict: ValidationVerdict) -> ValidationVerdict {
    if gate.origin != GateOrigin::Check || verdict.passed {
        return verdict;
    }
    let name = &gate.applicable.validation.description;
    let message = match verdict.message {
        Some(message) => format!("{name}: {message}"),
        None => name.clone(),
    };
    ValidationVerdict {
        message: Some(message),
        ..verdict
    }
}

/// Shared by all gates of one round.
struct ValidationRound<'a> {
    round: u32,
    stop: &'a StopSignal,
    slots: Arc<Semaphore>,
    guards: Guards,
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
