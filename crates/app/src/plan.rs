//! Handlers of plans, one file per verb. `find` looks plans up, `abandon` aborts their applies, `work` reads a plan's recorded
//! work, `owner` finds the process that runs it.

mod abandon;
mod apply;
mod artifacts;
mod cancel;
mod checkpoints;
mod correct;
mod delete;
mod diff;
mod error_recovery_steps;
mod errors;
mod execute;
mod explain;
mod find;
mod list;
mod log;
mod next_commands;
mod owner;
mod prompt;
mod purge;
mod rebase;
mod reject;
mod result_warnings;
mod resume;
mod revert;
mod rollback;
mod run;
mod run_folder;
mod start_over;
mod status;
mod tree;
mod unapply;
mod use_action;
mod verify;
mod work;

use std::time::Duration;

use cleveragents_domain::{Plan, Timestamp, WaitReason};

pub(crate) use apply::applied_reply;
pub use correct::check_guidance;
pub use errors::plan_error;
pub(crate) use execute::{executed_reply, with_sandbox_warnings};
pub(crate) use find::find_plan;
pub(crate) use next_commands::plan_next_steps;
pub use owner::continue_command;
pub use rebase::short_commit;
pub use rollback::parse_checkpoint;
pub use tree::tree_decision;
pub use work::PlanWork;

/// Returns the time since the plan was created, until now or until it was finished.
pub fn elapsed(plan: &Plan, now: Timestamp) -> Duration {
    let end = plan.timestamps.finished_at.unwrap_or(now);
    end.since(plan.timestamps.created_at)
}

/// Says what a plan waits for.
pub fn describe_waiting(waiting: WaitReason) -> String {
    match waiting {
        WaitReason::Slot => "waits for a free slot".to_owned(),
        WaitReason::Approval { .. } => "waits for your approval".to_owned(),
        WaitReason::Answer { .. } => "waits for your answer".to_owned(),
        WaitReason::Budget => "waits for a larger budget".to_owned(),
        WaitReason::Until { until } => format!("waits until {until}"),
    }
}
