//! `plan.rebase`

use cleveragents_api::plan::rebase::{PlanRebase, RebasedPlan, RebasedPlanResource};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::conflict::Conflict;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::rebase::RebasedResource;
use cleveragents_domain::{Plan, ResourceType, ValidationSummary};
use cleveragents_engine::applying::{ApplyFailure, RebaseOutcome};
use cleveragents_engine::execution::ExecuteOutcome;

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::drive::stopped_failure;
use crate::failure::conflicts::is_sandbox_removed;
use crate::failure::{RequestError, apply_conflict_failure};
use crate::next_steps::{apply_step, cancel_step, diff_step, execute_step, revert_step};
use crate::plan::abandon::abandon_apply;
use crate::plan::find::find_plan;

impl Handler<PlanRebase> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanRebase,
        caller: &Caller,
    ) -> Result<Reply<RebasedPlan>, RequestError> {
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        abandon_apply(&self.services, id, caller).await?;
        let rebased = self
            .services
            .apply_service(caller)?
            .rebase(id, &caller.who)
            .await;
        let rebased = rebased.map_err(|error| match error {
            ApplyFailure::Execution(error) => stopped_failure(*error, id),
            error => error.into(),
        })?;
        match &rebased {
            RebaseOutcome::Blocked { plan, conflicts } => Err(rebase_failure(plan, conflicts)),
            RebaseOutcome::Unmoved { plan, resources } => {
                let text = unmoved_text(resources);
                Ok(Reply::new(answer(plan, resources, None, &[])).info(text))
            }
            RebaseOutcome::Requeued {
                plan,
                resources,
                conflicts,
            } => {
                let answer = answer(plan, resources, None, conflicts);
                Err(with_answer(requeued_failure(id, conflicts), answer))
            }
            RebaseOutcome::Rebased {
                executed,
                resources,
                validation,
            } => {
                let plan = executed.plan().clone();
                let answer = answer(&plan, resources, validation.as_ref(), &[]);
                match not_ready_failure(id, executed) {
                    Some(failure) => Err(with_answer(failure, answer)),
                    None => Ok(Reply::new(answer)
                        .info("Rebased")
                        .hint(diff_step(id))
                        .hint(apply_step(&plan))),
                }
            }
        }
    }
}

/// Adds the answer's fields to the facts of a failure.
fn with_answer(failure: RequestError, answer: RebasedPlan) -> RequestError {
    let RebasedPlan {
        plan,
        resources,
        validations,
        conflicts,
    } = answer;
    failure.with_facts(|facts| {
        facts.plan_id = Some(plan.plan_id);
        facts.name = Some(plan.name);
        facts.phase = Some(plan.phase);
        facts.state = Some(plan.state);
        facts.waiting = Some(plan.waiting);
        facts.action = Some(plan.action);
        facts.project = Some(plan.project);
        facts.projects = Some(plan.projects);
        facts.attempt = Some(plan.attempt);
        facts.resources = Some(resources);
        facts.validations = Some(validations);
        facts.conflicts = Some(conflicts);
    })
}

fn answer(
    plan: &Plan,
    resources: &[RebasedResource],
    validations: Option<&ValidationSummary>,
    conflicts: &[Conflict],
) -> RebasedPlan {
    let resource = |it: &RebasedResource| RebasedPlanResource {
        resource: it.resource.clone(),
        resource_type: it.resource_type,
        from: it.from.clone(),
        to: it.to.clone(),
    };
    RebasedPlan {
        plan: plan.into(),
        resources: resources.iter().map(resource).collect(),
        validations: validations.cloned(),
        conflicts: conflicts.iter().map(Into::into).collect(),
    }
}

fn unmoved_text(resources: &[RebasedResource]) -> String {
    let is_repository = |it: &&RebasedResource| it.resource_type == ResourceType::GitCheckout;
    let repositories: Vec<&RebasedResource> = resources.iter().filter(is_repository).collect();
    match repositories.as_slice() {
        [] => "nothing to rebase: the folder has not changed since the plan began".to_owned(),
        [one] => format!(
            "nothing to rebase: the target is still at {}",
            short_commit(one.to.as_deref())
        ),
        several => {
            let at = several.iter();
            let at = at.map(|it| format!("{} ({})", short_commit(it.to.as_deref()), it.resource));
            let at: Vec<String> = at.collect();
            format!(
                "nothing to rebase: the targets are still at {}",
                at.join(", ")
            )
        }
    }
}

/// Returns the abbreviated commit id, as git displays it.
pub fn short_commit(commit: Option<&str>) -> &str {
    match commit {
        Some(commit) => commit.get(..7).unwrap_or(commit),
        None => "no commit",
    }
}

fn rebase_failure(plan: &Plan, conflicts: &[Conflict]) -> RequestError {
    let id = plan.identity.plan_id;
    apply_conflict_failure(plan, conflicts, "cannot rebase: a target has conflicts")
        .hint(NextStep::send(&PlanRebase { plan: id.into() }))
        .hint(cancel_step(id))
}

fn requeued_failure(id: PlanId, conflicts: &[Conflict]) -> RequestError {
    let what = if is_sandbox_removed(conflicts) {
        "no result to rebase: the plan is queued to run again"
    } else {
        "cannot merge the result: the plan is queued to run again on the current targets"
    };
    let failure = RequestError::new(ExitClass::Decision, what).kind(FailureKind::Requeued);
    conflicts
        .iter()
        .fold(failure, |failure, it| failure.because(it.to_string()))
        .hint(execute_step(id))
}

/// Returns why a rebased result cannot be applied yet, if it cannot.
fn not_ready_failure(id: PlanId, executed: &ExecuteOutcome) -> Option<RequestError> {
    match executed {
        ExecuteOutcome::Constrained { reason, .. } => Some(
            RequestError::new(
                ExitClass::Decision,
                "rebased, but required validations failed",
            )
            .kind(FailureKind::Validations)
            .because(reason.clone())
            .hint(execute_step(id))
            .hint(revert_step(id)),
        ),
        ExecuteOutcome::Failed { reason, .. } => Some(
            RequestError::new(ExitClass::Error, "rebased, but could not be validated")
                .because(reason.clone())
                .hint(execute_step(id)),
        ),
        ExecuteOutcome::Cancelled(_) => Some(
            RequestError::new(ExitClass::Conflict, "the plan was cancelled")
                .kind(FailureKind::Cancelled),
        ),
        _ => None,
    }
}
