//! Converts errors of executing and applying plans into failures with hints.

use cleveragents_api::actor::ActorValidate;
use cleveragents_api::plan::{
    PlanList, PlanLog, PlanReject, PlanRevert, PlanRollback, PlanUnapply, PlanVerify,
};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Request};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{Plan, PlanState, ResourcePath};
use cleveragents_engine::applying::ApplyFailure;
use cleveragents_engine::execution::{
    ExecutionError, LocalOperation, RedoCommand, RejectError, ResultsError,
};
use cleveragents_engine::sandboxes::SandboxServiceError;
use cleveragents_ports::processes::ProcessError;
use cleveragents_ports::sandbox::{PublishedCommit, SandboxError};
use cleveragents_ports::targets::TargetError;

use super::{RequestError, excerpt};
use crate::nearest::nearest_paths;
use crate::next_steps::{
    actors_step, apply_step, apply_to_step, cancel_step, checkpoints_step, diff_step, execute_step,
    force_checks_step, rebase_step, resume_step, revert_step, status_step,
};
use crate::plan::plan_next_steps;

/// Returns the failure of a command that got the stop signal; the plan can be resumed.
pub fn interrupted_failure(plan: PlanId) -> RequestError {
    RequestError::new(
        ExitClass::Interrupted,
        "interrupted; completed work is kept",
    )
    .kind(FailureKind::Interrupted)
    .hint(resume_step(plan))
    .with_plan_id(plan)
}

/// Returns the failure of a request that got the stop signal before it changed anything.
pub(crate) fn interrupted_request_failure<R: Request>(plan: PlanId, request: &R) -> RequestError {
    RequestError::new(ExitClass::Interrupted, "interrupted before it began")
        .kind(FailureKind::Interrupted)
        .hint(NextStep::send(request))
        .with_plan_id(plan)
}

impl From<ExecutionError> for RequestError {
    fn from(error: ExecutionError) -> Self {
        let shown = error.to_string();
        let failed = |kind| RequestError::new(ExitClass::Error, shown.clone()).kind(kind);
        match error {
            ExecutionError::Lifecycle(error) => error.into(),
            ExecutionError::Decision(error) => error.into(),
            ExecutionError::Sandbox(error) => error.into(),
            ExecutionError::Process(error) => error.into(),
            ExecutionError::Render(_) => {
                failed(FailureKind::Template)
                    .hint(NextStep::fill_in::<ActorValidate>(&[("config", "FILE")]))
            }
            ExecutionError::Stopped(_) => RequestError::new(ExitClass::Temporary, shown)
                .kind(FailureKind::Stopped)
                .hint(NextStep::send(&PlanList {
                    state: Some(PlanState::Processing),
                    ..PlanList::default()
                })),
            ExecutionError::NoStrategy { plan } => failed(FailureKind::NoStrategy)
                .hint(revert_step(plan))
                .with_plan_id(plan),
            ExecutionError::StrategyChanged { plan, .. } => failed(FailureKind::StrategyChanged)
                .hint(verify_step(plan))
                .hint(revert_step(plan))
                .with_plan_id(plan),
            ExecutionError::CheckpointUndone { by, .. } => {
                RequestError::new(ExitClass::Conflict, shown)
                    .kind(FailureKind::Undone)
                    .hint(checkpoints_step())
                    .with_facts(|facts| facts.undone_by = Some(by))
            }
            ExecutionError::CheckpointBaseChanged { .. } => {
                RequestError::new(ExitClass::Conflict, shown)
                    .kind(FailureKind::OtherBase)
                    .hint(checkpoints_step())
            }
            ExecutionError::ActorChanged { .. } => failed(FailureKind::ActorChanged)
                .because("the new strategy needs your approval again")
                .hint(NextStep::fill_in::<PlanRevert>(&[("plan", "PLAN")])),
            ExecutionError::NoActor { .. } => RequestError::new(ExitClass::NotFound, shown)
                .kind(FailureKind::NoActor)
                .hint(actors_step()),
            ExecutionError::SandboxRemoved { plan, again, .. } => {
                RequestError::new(ExitClass::Conflict, shown)
                    .kind(FailureKind::SandboxGone)
                    .hint(match again {
                        RedoCommand::Execute => execute_step(plan),
                        RedoCommand::Rebase => rebase_step(plan),
                    })
                    .with_plan_id(plan)
            }
            ExecutionError::WrongNode(it) => wrong_node_failure(shown, &it.node)
                .hint(local_step(it.operation.clone(), it.plan).with_condition(ON_THAT_MACHINE))
                .with_plan_id(it.plan),
            ExecutionError::Resource { .. } => failed(FailureKind::Resource),
            ExecutionError::Internal { .. } => {
                failed(FailureKind::Internal).hint("agents diagnostics")
            }
        }
    }
}

impl From<ResultsError> for RequestError {
    fn from(error: ResultsError) -> Self {
        let shown = error.to_string();
        match error {
            ResultsError::Store(error) => error.into(),
            ResultsError::Sandbox(error) => error.into(),
            ResultsError::NoResource { known, .. } => {
                let failure =
                    RequestError::new(ExitClass::NotFound, shown).kind(FailureKind::NoResource);
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let failure = if known.is_empty() {
                    failure
                } else {
                    failure.because(format!("it has {}", known.join(", ")))
                };
                failure.with_candidates(known)
            }
            ResultsError::NotChanged { typed, changed } => not_changed_failure(&typed, &changed),
            ResultsError::WrongNode { sandbox, node } => wrong_node_failure(shown, &node)
                .hint(diff_step(sandbox.plan_id).with_condition(ON_THAT_MACHINE))
                .with_plan_id(sandbox.plan_id),
            ResultsError::Removed { sandbox, published } => {
                sandbox_removed_failure(&sandbox, published, shown)
            }
            ResultsError::Internal { .. } => RequestError::new(ExitClass::Error, shown)
                .kind(FailureKind::Internal)
                .hint("agents diagnostics"),
        }
    }
}

fn verify_step(plan: PlanId) -> NextStep {
    NextStep::send(&PlanVerify {
        plan: plan.into(),
        expect: None,
    })
}

const ON_THAT_MACHINE: &str = "on that machine";

/// Returns the step of doing what the user wanted, which is possible where the files are.
fn local_step(operation: LocalOperation, plan: PlanId) -> NextStep {
    let id = plan.to_string();
    match operation {
        LocalOperation::Apply { to } => apply_to_step(plan, Some(&to)),
        LocalOperation::Cancel => cancel_step(plan),
        LocalOperation::Execute => execute_step(plan),
        LocalOperation::Rebase => rebase_step(plan),
        LocalOperation::Reject => {
            NextStep::fill_in::<PlanReject>(&[("plan", &id), ("part", "FILE"), ("why", "TEXT")])
        }
        LocalOperation::Rollback => {
            NextStep::fill_in::<PlanRollback>(&[("plan", &id), ("checkpoint", "CHECKPOINT")])
        }
        LocalOperation::Unapply => NextStep::send(&PlanUnapply { plan: plan.into() }),
    }
}

/// Returns the failure for a plan whose files are on another machine.
fn wrong_node_failure(message: String, node: &str) -> RequestError {
    RequestError::new(ExitClass::Conflict, message)
        .kind(FailureKind::WrongNode)
        .because("sandboxes stay on the machine that created them; `agents info` shows its node")
        .with_facts(|facts| facts.node = Some(node.to_owned()))
}

/// Returns the failure for a path that the plan did not change, with the most similar changed
/// paths.
fn not_changed_failure(typed: &str, changed: &[ResourcePath]) -> RequestError {
    let what = format!("the plan did not change `{}`", excerpt(typed));
    let near = nearest_paths(typed, changed);
    let failure = RequestError::new(ExitClass::NotFound, what).kind(FailureKind::NotChanged);
    let failure = match near.as_slice() {
        [] => failure,
        near => failure.because(format!("did you mean {}?", near.join(" or "))),
    };
    failure.with_candidates(near)
}

/// Returns the failure for a removed sandbox, with hints on what can still be inspected.
fn sandbox_removed_failure(
    sandbox: &SandboxRecord,
    published: Option<PublishedCommit>,
    message: String,
) -> RequestError {
    let failure = RequestError::new(ExitClass::NotFound, message)
        .kind(FailureKind::SandboxGone)
        .with_facts(|facts| {
            facts.sandbox_id = Some(sandbox.id);
            facts.published = Some(published.as_ref().map(|it| it.commit.clone()));
        });
    match published {
        Some(published) => failure
            .because("its result is still in the repository")
            .hint(format!(
                "git -C {} show {}",
                sandbox.resource_path, published.reference
            )),
        None => failure
            .because("its journal is kept, its files are not")
            .hint(NextStep::send(&PlanLog {
                plan: sandbox.plan_id.into(),
                from_seq: None,
                limit: None,
            })),
    }
}

impl From<RejectError> for RequestError {
    fn from(error: RejectError) -> Self {
        let shown = error.to_string();
        match error {
            RejectError::Execution(error) => (*error).into(),
            RejectError::Results(error) => error.into(),
            RejectError::NoReason => RequestError::usage(shown)
                .kind(FailureKind::NoReason)
                .hint("give one with --why TEXT"),
            RejectError::NoHunk { hunks, .. } => RequestError::usage(shown)
                .kind(FailureKind::NoHunk)
                .because(match hunks {
                    0 => "it has none: leave the number out".to_owned(),
                    1 => "it has one".to_owned(),
                    _ => format!("it has {hunks}, counted from 1"),
                })
                .with_facts(|facts| facts.hunks = Some(hunks)),
            RejectError::AmbiguousPath { resources } => {
                let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
                let failure = RequestError::usage(shown).kind(FailureKind::SeveralResources);
                let failure = names.iter().fold(failure, |failure, name| {
                    failure.hint(format!("add --resource {name}"))
                });
                failure.with_candidates(names)
            }
            RejectError::NoResult { plan } => {
                let id = plan.identity.plan_id;
                let failure = RequestError::new(ExitClass::Conflict, shown)
                    .kind(FailureKind::NotNow)
                    .with_facts(|facts| {
                        facts.phase = Some(plan.position.phase());
                        facts.state = Some(plan.position.state());
                    });
                if plan.position.is_terminal() {
                    failure.hint(status_step(id))
                } else {
                    failure.hint(execute_step(id))
                }
            }
        }
    }
}

impl From<SandboxServiceError> for RequestError {
    fn from(error: SandboxServiceError) -> Self {
        let shown = error.to_string();
        match error {
            SandboxServiceError::Lifecycle(error) => error.into(),
            SandboxServiceError::Sandbox(error) => error.into(),
            SandboxServiceError::TaskFailed { .. } => RequestError::new(ExitClass::Error, shown)
                .kind(FailureKind::Internal)
                .hint("agents diagnostics"),
        }
    }
}

impl From<ApplyFailure> for RequestError {
    fn from(error: ApplyFailure) -> Self {
        let shown = error.to_string();
        match error {
            ApplyFailure::Execution(error) => (*error).into(),
            ApplyFailure::Target(error) => (*error).into(),
            ApplyFailure::ChecksFailed { plan } => checks_failed_failure(&plan, shown),
            ApplyFailure::ForcingNotAllowed { plan } => {
                let failure = RequestError::new(ExitClass::Conflict, shown)
                    .kind(FailureKind::Validations)
                    .because("only a profile of your own with `allow_forced_checks: true` does")
                    .with_plan(&plan);
                let steps = plan_next_steps(&plan).into_iter();
                steps.fold(failure, RequestError::hint)
            }
            ApplyFailure::NothingToSettle { plan } => RequestError::new(ExitClass::Conflict, shown)
                .kind(FailureKind::NothingToSettle)
                .hint(status_step(plan.identity.plan_id))
                .with_plan(&plan),
            ApplyFailure::NothingApplied { plan } => RequestError::new(ExitClass::Conflict, shown)
                .kind(FailureKind::NothingApplied)
                .hint(apply_step(&plan))
                .hint(cancel_step(plan.identity.plan_id))
                .with_plan(&plan),
            ApplyFailure::NoResult { plan } => no_result_failure(&plan, shown),
            ApplyFailure::NeverApplied { plan } => RequestError::new(ExitClass::Conflict, shown)
                .kind(FailureKind::NeverApplied)
                .hint(status_step(plan.identity.plan_id))
                .with_plan(&plan),
        }
    }
}

/// Returns the failure of an apply that required checks refuse. The plan names the checks.
fn checks_failed_failure(plan: &Plan, message: String) -> RequestError {
    let failure = RequestError::new(ExitClass::Conflict, message)
        .kind(FailureKind::Validations)
        .with_plan(plan);
    let failure = match &plan.error_message {
        Some(checks) => failure.because(checks.clone()),
        None => failure,
    };
    let steps = plan_next_steps(plan).into_iter();
    let failure = steps.fold(failure, RequestError::hint);
    if plan.brief.automation_profile.allow_forced_checks {
        failure.hint(force_checks_step(plan))
    } else {
        failure
    }
}

/// Returns the failure for a plan that has no result to show or apply.
fn no_result_failure(plan: &Plan, message: String) -> RequestError {
    let id = plan.identity.plan_id;
    let failure = RequestError::new(ExitClass::Conflict, message)
        .kind(FailureKind::NotNow)
        .with_plan(plan)
        .with_facts(|facts| facts.conflicts = Some(Vec::new()));
    if plan.position.is_terminal() {
        failure.hint(status_step(id))
    } else {
        failure.hint(execute_step(id))
    }
}

impl From<TargetError> for RequestError {
    fn from(error: TargetError) -> Self {
        let shown = error.to_string();
        let temporary = error.is_temporary();
        match error {
            TargetError::Sandbox(error) => error.into(),
            TargetError::BranchName { .. } | TargetError::NoBranches => {
                RequestError::usage(shown).kind(FailureKind::Destination)
            }
            TargetError::PatchFile { .. } => RequestError::new(ExitClass::Conflict, shown)
                .kind(FailureKind::PatchFile)
                .hint("name another file with --to patch FILE"),
            _ if temporary => {
                RequestError::new(ExitClass::Temporary, shown).kind(FailureKind::Busy)
            }
            _ => RequestError::new(ExitClass::Error, shown).kind(FailureKind::Target),
        }
    }
}

impl From<SandboxError> for RequestError {
    fn from(error: SandboxError) -> Self {
        let shown = error.to_string();
        if let SandboxError::InUse { holder, .. } = &error {
            let failure = RequestError::new(ExitClass::Temporary, shown).kind(FailureKind::Busy);
            let failure = match holder.strip_prefix("process ") {
                Some(pid) => failure.because(format!(
                    "if process {pid} is stopped, `kill -CONT {pid}` continues it"
                )),
                None => failure,
            };
            return failure.hint("wait until it ends, then repeat the command");
        }
        let exit = match error {
            SandboxError::TimedOut { .. } | SandboxError::Changing { .. } => ExitClass::Temporary,
            SandboxError::NotFound { .. } => ExitClass::NotFound,
            _ => ExitClass::Error,
        };
        RequestError::new(exit, shown)
            .kind(FailureKind::Sandbox)
            .hint("agents diagnostics")
    }
}

impl From<ProcessError> for RequestError {
    fn from(error: ProcessError) -> Self {
        RequestError::new(ExitClass::Error, error.to_string())
            .kind(FailureKind::Process)
            .hint("agents diagnostics")
    }
}
