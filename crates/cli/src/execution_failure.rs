//! What kept a plan from being worked on or applied, as failures people can act on.

use cleveragents_engine::applying::ApplyFailure;
use cleveragents_engine::execution::ExecutionError;
use cleveragents_engine::ports::processes::ProcessError;
use cleveragents_engine::ports::sandbox::SandboxError;
use cleveragents_engine::ports::targets::TargetError;
use serde_json::json;

use crate::failure::{ExitCode, Failure};

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
            ExecutionError::NoSlot { running } => Failure::new(ExitCode::Temporary, shown)
                .kind("no_slot")
                .hint("agents plan list --state processing")
                .hint("agents config set plan.concurrency NUMBER")
                .with("running", json!(running)),
            ExecutionError::NoStrategy { plan } => failed("no_strategy")
                .hint(format!("agents plan revert {plan}"))
                .with("plan_id", json!(plan)),
            ExecutionError::StrategyChanged { plan, .. } => failed("strategy_changed")
                .hint(format!("agents plan verify {plan}"))
                .hint(format!("agents plan revert {plan}"))
                .with("plan_id", json!(plan)),
            ExecutionError::NoActor { .. } => Failure::new(ExitCode::NotFound, shown)
                .kind("no_actor")
                .hint("agents actor list"),
            ExecutionError::Resource { .. } => failed("resource"),
            ExecutionError::Lost { .. } => failed("internal").hint("agents diagnostics"),
        }
    }
}

impl From<ApplyFailure> for Failure {
    fn from(error: ApplyFailure) -> Self {
        let shown = error.to_string();
        match error {
            ApplyFailure::Execution(error) => (*error).into(),
            ApplyFailure::Target(error) => (*error).into(),
            ApplyFailure::NeverApplied { plan } => Failure::new(ExitCode::Conflict, shown)
                .kind("never_applied")
                .hint(format!("agents plan status {}", plan.identity.plan_id))
                .with("plan_id", json!(plan.identity.plan_id))
                .with("phase", json!(plan.position.phase()))
                .with("state", json!(plan.position.state())),
        }
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
            SandboxError::TimedOut { .. } | SandboxError::Changing { .. } => ExitCode::Temporary,
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
