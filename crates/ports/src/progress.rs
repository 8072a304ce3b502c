//! Progress of running plans, for front ends that watch them.

use std::fmt::Debug;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;

/// Receives the progress of running plans.
pub trait ProgressSink: Debug + Send + Sync {
    /// Passes the progress on. Must return at once and may drop it: running plans do not wait for
    /// their watchers.
    fn report(&self, plan: PlanId, progress: Progress);
}

/// Drops all progress.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: PlanId, _: Progress) {}
}
