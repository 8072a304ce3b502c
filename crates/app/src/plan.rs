//! Handlers of plans, one file per verb. `find` looks plans up, `work` reads what a plan has done,
//! `owner` tells which process runs it.

mod artifacts;
mod checkpoints;
mod delete;
mod diff;
mod errors;
mod explain;
mod find;
mod list;
mod log;
mod owner;
mod prompt;
mod purge;
mod result_warnings;
mod status;
mod tree;
mod use_action;
mod verify;
mod work;

use std::time::Duration;

use cleveragents_domain::{Plan, Timestamp, WaitReason};

pub use owner::continue_command;
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
