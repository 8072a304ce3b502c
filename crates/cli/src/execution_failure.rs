//! What kept a plan from being worked on or applied, as failures people can act on.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{Plan, ResourcePath};
use cleveragents_engine::applying::ApplyFailure;
use cleveragents_engine::execution::{ExecutionError, RejectError, ResultsError};
use cleveragents_engine::ports::processes::ProcessError;
use cleveragents_engine::ports::sandbox::{Published, SandboxError};
use cleveragents_engine::ports::targets::TargetError;
use cleveragents_engine::sandboxes::SandboxesError;
use serde_json::json;

use crate::failure::{ExitCode, Failure, excerpt};
use crate::nearest::nearest_paths;

/// Somebody asked this process to stop; the plan can be gone on with.
pub(crate) fn interrupted(plan: PlanId) -> Failure {
    Failure::new(
        ExitCode::Interrupted,
        "interrupted; nothing that was done is lost",
    )
    .kind("interrupted")
    .hint(format!("agents plan resume {plan}"))
    .with("plan_id", json!(plan))
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let shown = error.to_string();
        let failed = |kind| Failure::new(ExitCode::Error, shown.clone()).kind(kind);
        match error {
            ExecutionError::Lifecycle(error) => error.into(),
            ExecutionError::Decision(error) => error.into(),
            ExecutionError::Sandbox(error) => error.into(),
            ExecutionError::Process(error) => error.into(),
            ExecutionError::Render(_) => failed("template").hint("agents actor validate FILE"),
            ExecutionError::Stopped(_) => Failure::new(ExitCode::Temporary, shown)
                .kind("stopped")
                .hint("agents plan list --state processing"),
            ExecutionError::NoStrategy { plan } => failed("no_strategy")
                .hint(format!("agents plan revert {plan}"))
                .with("plan_id", json!(plan)),
            ExecutionError::StrategyChanged { plan, .. } => failed("strategy_changed")
                .hint(format!("agents plan verify {plan}"))
                .hint(format!("agents plan revert {plan}"))
                .with("plan_id", json!(plan)),
            ExecutionError::Undone { by, .. } => Failure::new(ExitCode::Conflict, shown)
                .kind("undone")
                .hint("agents plan checkpoints PLAN")
                .with("undone_by", json!(by)),
            ExecutionError::OtherBase { .. } => Failure::new(ExitCode::Conflict, shown)
                .kind("other_base")
                .hint("agents plan checkpoints PLAN"),
            ExecutionError::ActorChanged { .. } => failed("actor_changed")
                .hint("agents plan revert PLAN, then approve the new strategy"),
            ExecutionError::NoActor { .. } => Failure::new(ExitCode::NotFound, shown)
                .kind("no_actor")
                .hint("agents actor list"),
            ExecutionError::SandboxRemoved { plan, again, .. } => {
                Failure::new(ExitCode::Conflict, shown)
                    .kind("sandbox_gone")
                    .hint(format!("{} {plan}", again.command()))
                    .with("plan_id", json!(plan))
            }
            ExecutionError::Elsewhere(it) => elsewhere(shown, &it.node)
                .hint(format!(
                    "on that machine: agents {} {}",
                    it.command, it.plan
                ))
                .with("plan_id", json!(it.plan)),
            ExecutionError::Resource { .. } => failed("resource"),
            ExecutionError::Lost { .. } => failed("internal").hint("agents diagnostics"),
        }
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        let shown = error.to_string();
        match error {
            ResultsError::Store(error) => error.into(),
            ResultsError::Sandbox(error) => error.into(),
            ResultsError::NoResource { known, .. } => {
                let failure = Failure::new(ExitCode::NotFound, shown).kind("no_resource");
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let failure = match known.is_empty() {
                    true => failure,
                    false => failure.because(format!("it has {}", known.join(", "))),
                };
                failure.with("candidates", json!(known))
            }
            ResultsError::NotChanged { typed, changed } => not_changed(&typed, &changed),
            ResultsError::Elsewhere { sandbox, node } => elsewhere(shown, &node)
                .hint(format!(
                    "on that machine: agents plan diff {}",
                    sandbox.plan_id
                ))
                .with("plan_id", json!(sandbox.plan_id)),
            ResultsError::Removed { sandbox, published } => removed(&sandbox, published, shown),
            ResultsError::Lost { .. } => Failure::new(ExitCode::Error, shown)
                .kind("internal")
                .hint("agents diagnostics"),
        }
    }
}

/// Files that another machine has.
fn elsewhere(shown: String, node: &str) -> Failure {
    Failure::new(ExitCode::Conflict, shown)
        .kind("elsewhere")
        .because("sandboxes stay on the machine that made them; `agents info` says its node")
        .with("node", json!(node))
}

/// A path that is in no difference, with those it was probably meant to be.
fn not_changed(typed: &str, changed: &[ResourcePath]) -> Failure {
    let what = format!("`{}` is not among what the plan changed", excerpt(typed));
    let near = nearest_paths(typed, changed);
    let failure = Failure::new(ExitCode::NotFound, what).kind("not_changed");
    let failure = match near.as_slice() {
        [] => failure,
        near => failure.because(format!("did you mean {}?", near.join(" or "))),
    };
    failure.with("candidates", json!(near))
}

/// What is left to look at of a sandbox that was removed.
fn removed(sandbox: &SandboxRecord, published: Option<Published>, shown: String) -> Failure {
    let failure = Failure::new(ExitCode::NotFound, shown)
        .kind("sandbox_gone")
        .with("sandbox_id", json!(sandbox.id))
        .with("published", json!(published.as_ref().map(|it| &it.commit)));
    match published {
        Some(published) => failure
            .because("its result is still in the repository")
            .hint(format!(
                "git -C {} show {}",
                sandbox.resource_path, published.reference
            )),
        None => failure
            .because("what it did is on record, the files it left are not")
            .hint(format!("agents plan log {}", sandbox.plan_id)),
    }
}

impl From<RejectError> for Failure {
    fn from(error: RejectError) -> Self {
        let shown = error.to_string();
        match error {
            RejectError::Execution(error) => (*error).into(),
            RejectError::Results(error) => error.into(),
            RejectError::NoReason => Failure::usage(shown)
                .kind("no_reason")
                .hint("say it with --why TEXT"),
            RejectError::NoHunk { hunks, .. } => Failure::usage(shown)
                .kind("no_hunk")
                .because(match hunks {
                    0 => "it has none: leave the number out".to_owned(),
                    1 => "it has one".to_owned(),
                    _ => format!("it has {hunks}, counted from 1"),
                })
                .with("hunks", json!(hunks)),
            RejectError::Several { resources } => {
                let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
                let failure = Failure::usage(shown).kind("several_resources");
                let failure = names.iter().fold(failure, |failure, name| {
                    failure.hint(format!("add --resource {name}"))
                });
                failure.with("candidates", json!(names))
            }
            RejectError::NotNow { plan } => {
                let id = plan.identity.plan_id;
                let failure = Failure::new(ExitCode::Conflict, shown)
                    .kind("not_now")
                    .with("phase", json!(plan.position.phase()))
                    .with("state", json!(plan.position.state()));
                match plan.position.is_terminal() {
                    true => failure.hint(format!("agents plan status {id}")),
                    false => failure.hint(format!("agents plan execute {id}")),
                }
            }
        }
    }
}

impl From<SandboxesError> for Failure {
    fn from(error: SandboxesError) -> Self {
        let shown = error.to_string();
        match error {
            SandboxesError::Lifecycle(error) => error.into(),
            SandboxesError::Sandbox(error) => error.into(),
            SandboxesError::Lost { .. } => Failure::new(ExitCode::Error, shown)
                .kind("internal")
                .hint("agents diagnostics"),
        }
    }
}

impl From<ApplyFailure> for Failure {
    fn from(error: ApplyFailure) -> Self {
        let shown = error.to_string();
        match error {
            ApplyFailure::Execution(error) => (*error).into(),
            ApplyFailure::Target(error) => (*error).into(),
            ApplyFailure::NothingToSettle { plan } => Failure::new(ExitCode::Conflict, shown)
                .kind("nothing_to_settle")
                .hint(format!("agents plan status {}", plan.identity.plan_id))
                .with("plan_id", json!(plan.identity.plan_id))
                .with("phase", json!(plan.position.phase()))
                .with("state", json!(plan.position.state())),
            ApplyFailure::NothingApplied { plan } => Failure::new(ExitCode::Conflict, shown)
                .kind("nothing_applied")
                .hint(format!("agents plan apply {}", plan.identity.plan_id))
                .hint(format!("agents plan cancel {}", plan.identity.plan_id))
                .with("plan_id", json!(plan.identity.plan_id))
                .with("phase", json!(plan.position.phase()))
                .with("state", json!(plan.position.state())),
            ApplyFailure::NoResult { plan } => no_result(&plan, shown),
            ApplyFailure::NeverApplied { plan } => Failure::new(ExitCode::Conflict, shown)
                .kind("never_applied")
                .hint(format!("agents plan status {}", plan.identity.plan_id))
                .with("plan_id", json!(plan.identity.plan_id))
                .with("phase", json!(plan.position.phase()))
                .with("state", json!(plan.position.state())),
        }
    }
}

/// A plan that is finished for good, or that has work to do first.
fn no_result(plan: &Plan, shown: String) -> Failure {
    let id = plan.identity.plan_id;
    let failure = Failure::new(ExitCode::Conflict, shown)
        .kind("not_now")
        .with("plan_id", json!(id))
        .with("phase", json!(plan.position.phase()))
        .with("state", json!(plan.position.state()))
        .with("conflicts", json!([]));
    match plan.position.is_terminal() {
        true => failure.hint(format!("agents plan status {id}")),
        false => failure.hint(format!("agents plan execute {id}")),
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        let shown = error.to_string();
        let temporary = error.is_temporary();
        match error {
            TargetError::Sandbox(error) => error.into(),
            TargetError::BranchName { .. } | TargetError::NoBranches => {
                Failure::usage(shown).kind("destination")
            }
            TargetError::PatchFile { .. } => Failure::new(ExitCode::Conflict, shown)
                .kind("patch_file")
                .hint("name another file with --to patch FILE"),
            _ if temporary => Failure::new(ExitCode::Temporary, shown).kind("busy"),
            _ => Failure::new(ExitCode::Error, shown).kind("target"),
        }
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        let shown = error.to_string();
        let exit = match error {
            SandboxError::TimedOut { .. }
            | SandboxError::Changing { .. }
            | SandboxError::InUse { .. } => ExitCode::Temporary,
            SandboxError::NotFound { .. } => ExitCode::NotFound,
            _ => ExitCode::Error,
        };
        Failure::new(exit, shown)
            .kind("sandbox")
            .hint("agents diagnostics")
    }
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Self {
        Failure::new(ExitCode::Error, error.to_string())
            .kind("process")
            .hint("agents diagnostics")
    }
}
