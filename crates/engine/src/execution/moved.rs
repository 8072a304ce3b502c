//! Validates a result that was moved onto another base.
//!
//! It ends as Execute ends. Nothing that fails is mended here: that is work of the plan's actor,
//! which `plan execute` asks for.

use cleveragents_domain::ValidationSummary;
use cleveragents_domain::id::SandboxId;
use tokio::sync::watch;

use super::error::{ExecutionError, Result};
use super::executor::{Executed, Executor};
use crate::ports::Stopped;
use crate::runs::RunLease;

impl Executor {
    /// Runs what gates on the sandboxes as they are on record, and leaves the plan complete or
    /// constrained. It must be in Execute, with all of its steps done.
    pub(super) async fn validate_moved(
        &self,
        run: &RunLease,
        stop: &watch::Receiver<Option<Stopped>>,
    ) -> Result<Executed> {
        let plan = self.lifecycle.plan(run.lease().plan).await?;
        let limit = plan.brief.automation_profile.limits.validation_retry_limit;
        let round = self.first_round(&plan, limit).await?;
        // Changes that were refused and that the user has not seen stay listed.
        let listed = self.listed_refusals(&plan).await?;
        let workshop = self.workshop(run);
        let workspace = workshop.furnish(&plan).await?;
        let judged = self.validate_round(&plan, &workspace, round, stop);
        let summary = judged.await?.map_err(ExecutionError::Stopped)?;
        let results = summary.results.into_iter().chain(listed);
        let summary = ValidationSummary::new(results.collect());
        self.store_summary(run, &plan, round, &summary).await?;
        let seats: Vec<SandboxId> = workspace.seats.iter().map(|it| it.id).collect();
        drop(workspace);
        let end = self.seal(run, &plan, &workshop, (&seats, summary)).await?;
        self.end_phase(run, end).await
    }
}
