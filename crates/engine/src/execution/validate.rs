//! The end of Execute: the plan's checks and the validations attached to its resources.
//!
//! They run in parallel, each confined, on the captured result. What they leave in the tree does
//! not count: the tree is set back to what was captured. Apply reads the stored summary and runs
//! nothing again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::validation::applicable::{
    Applicable, PlanResource, ValidationTarget, applicable,
};
use cleveragents_domain::validation::verdict::{CommandOutcome, Ending, Finished, Verdict};
use cleveragents_domain::{
    Attachment, AttachmentScope, Check, EventKind, Plan, StreamId, Timestamp, Validation,
    ValidationMode, ValidationResult, ValidationSource, ValidationSummary,
};
use serde_json::json;
use tokio::sync::{OwnedRwLockWriteGuard, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::workspace::{Inside, Seat, Workspace};
use crate::journal::event;
use crate::ports::StoreError;
use crate::ports::processes::{ConfinedCommand, Ended, Kept, Processes, TreeAccess};
use crate::ports::sandbox::Touched;
use crate::ports::stop::{Stop, Stopped};
use crate::ports::tools::{Call, Stamps, Toolbox};
use crate::runs::RunLease;
use crate::validations::{Prepared, judge_output, prepare};

/// How much of each stream of a command's output is kept.
const OUTPUT_MAXIMUM: usize = 64 * 1024;

/// How long a check may take that says nothing of it, in seconds.
const CHECK_TIMEOUT: u64 = 300;

impl Executor {
    /// Runs what gates, again after each attempt to fix what failed, and stores what came of it.
    pub(super) async fn validate(
        &self,
        run: &RunLease,
        plan: &Plan,
        workspace: &Workspace,
    ) -> Result<ValidationSummary> {
        let summary = self.validate_once(plan, workspace, 1).await?;
        self.store_summary(run, plan, 1, &summary).await?;
        Ok(summary)
    }

    async fn validate_once(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
    ) -> Result<ValidationSummary> {
        let all = self.gates(plan, workspace).await?;
        let slots = Arc::new(Semaphore::new(self.policy.parallel_validations));
        let mut results = Vec::with_capacity(all.len());
        for seat in &workspace.seats {
            let here: Vec<Applicable> = all
                .iter()
                .filter(|it| it.resource == seat.resource)
                .cloned()
                .collect();
            if !here.is_empty() {
                results.extend(self.validate_seat(seat, here, round, &slots).await?);
            }
        }
        Ok(ValidationSummary::new(results))
    }

    /// Everything that looks at one sandbox, at once; taken as they finish.
    async fn validate_seat(
        &self,
        seat: &Seat,
        all: Vec<Applicable>,
        round: u32,
        slots: &Arc<Semaphore>,
    ) -> Result<Vec<ValidationResult>> {
        let inside = Arc::new(Arc::clone(&seat.gate).write_owned().await);
        let mut work = JoinSet::new();
        for one in all {
            let judge = Judge {
                inside: Arc::clone(&inside),
                toolbox: Arc::clone(&self.toolbox),
                processes: Arc::clone(&self.processes),
                network: self.policy.network,
            };
            let slots = Arc::clone(slots);
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
                    ValidationResult::new(&one, finished)
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
        spawn_blocking(move || set_back(inside)).await??;
        Ok(results)
    }

    /// The plan's checks and the validations attached to its resources.
    async fn gates(&self, plan: &Plan, workspace: &Workspace) -> Result<Vec<Applicable>> {
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
        let mut all = applicable(target, &attachments, &validations).map_err(|error| {
            ExecutionError::Resource {
                reason: error.to_string(),
            }
        })?;
        for resource in resources {
            if workspace
                .seats
                .iter()
                .any(|it| it.resource == resource.name)
            {
                let checks = plan.brief.checks.iter().zip(1_u32..);
                for (check, number) in checks {
                    all.push(self.check(plan, &resource, check, number)?);
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
        let validation = Validation {
            name,
            description: check.name.clone().unwrap_or_else(|| check.run.clone()),
            mode: ValidationMode::Required,
            source: ValidationSource::Run(check.run.clone()),
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

    async fn store_summary(
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

/// What a validation may have left behind does not count.
fn set_back(inside: OwnedRwLockWriteGuard<Inside>) -> Result<()> {
    let mut inside = inside;
    let Inside { sandbox, tree } = &mut *inside;
    let capture = sandbox.capture(tree, &Touched::Unknown)?;
    if capture.tree != *tree {
        sandbox.restore(tree)?;
    }
    Ok(())
}

/// Asks one validation.
struct Judge {
    inside: Arc<OwnedRwLockWriteGuard<Inside>>,
    toolbox: Arc<dyn Toolbox>,
    processes: Arc<dyn Processes>,
    network: cleveragents_domain::process::Network,
}

impl Judge {
    fn judge(&self, one: &Applicable) -> Verdict {
        match prepare(&one.validation, &one.attachment.args) {
            Err(error) => Verdict::failed(error.to_string()),
            Ok(Prepared::Command(command)) => {
                Verdict::of_command(&self.command(&command, one.validation.timeout))
            }
            Ok(Prepared::Tool { tool, input }) => match self.tool(&tool, &input) {
                Ok(output) => judge_output(&one.validation, &one.attachment.args, &output),
                Err(reason) => Verdict::failed(reason),
            },
        }
    }

    fn command(&self, command: &str, seconds: u64) -> CommandOutcome {
        match self.run(command, seconds) {
            Ok(outcome) => outcome,
            Err(reason) => CommandOutcome {
                ending: Ending::Failed { reason },
                stdout: String::new(),
                stderr: String::new(),
            },
        }
    }

    fn run(&self, command: &str, seconds: u64) -> std::result::Result<CommandOutcome, String> {
        let sandbox = &self.inside.sandbox;
        let confined = ConfinedCommand {
            argv: vec!["sh".into(), "-c".into(), command.into()],
            tree: sandbox.tree().to_owned(),
            scratch: sandbox.scratch().map_err(|error| error.to_string())?,
            access: TreeAccess::Writable,
            network: self.network,
            timeout: Duration::from_secs(seconds),
            output_limit: OUTPUT_MAXIMUM,
            stdin: Vec::new(),
        };
        let waiting = self.processes.prepare(&confined);
        let finished = waiting
            .and_then(|waiting| waiting.go(&Stop::new()))
            .map_err(|error| error.to_string())?;
        Ok(CommandOutcome {
            ending: match finished.ended {
                Ended::Exited(code) => Ending::Exited { code },
                Ended::Signalled(signal) => Ending::Signalled { signal },
                Ended::Stopped(Stopped::TimedOut) => Ending::TimedOut { seconds },
                Ended::Stopped(why) => Ending::Failed {
                    reason: why.to_string(),
                },
            },
            stdout: text(&finished.stdout),
            stderr: text(&finished.stderr),
        })
    }

    fn tool(
        &self,
        name: &cleveragents_domain::NamespacedName,
        input: &serde_json::Value,
    ) -> std::result::Result<serde_json::Value, String> {
        let tool = self.toolbox.tool(name);
        let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
        tool.check_input(input).map_err(|error| error.to_string())?;
        let answer = tool.run(&Call {
            input,
            sandbox: &*self.inside.sandbox,
            tree: &self.inside.tree,
            stamps: &Stamps::new(),
            stop: &Stop::new(),
            announce: &|_| Ok(()),
        });
        answer
            .map(|output| output.data)
            .map_err(|error| error.to_string())
    }
}

/// What was kept of an output, as text.
fn text(kept: &Kept) -> String {
    let start = String::from_utf8_lossy(&kept.start);
    if kept.left_out == 0 {
        return format!("{start}{}", String::from_utf8_lossy(&kept.end));
    }
    let end = String::from_utf8_lossy(&kept.end);
    format!("{start}\n[… {} bytes left out …]\n{end}", kept.left_out)
}
