//! Validates a result that was moved onto another base, and merges with targets that have moved.
//!
//! A result that was moved ends as Execute ends. Nothing that fails is mended here: that is work of the plan's actor,
//! which `plan execute` asks for.

use std::sync::Arc;

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{EventKind, Plan, TreeId, ValidationSummary};
use serde_json::json;
use tokio::sync::{RwLock, watch};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::{Executed, Executor};
use super::workspace::{Inside, Seat, Workspace};
use crate::ports::{Stop, Stopped};
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
        let end = self
            .seal((run, stop), &plan, &workshop, (&seats, summary))
            .await?;
        self.end_phase(run, end).await
    }

    /// Whether anything gates what is in this sandbox.
    pub(crate) async fn has_gates(&self, plan: &Plan, record: &SandboxRecord) -> Result<bool> {
        let Some(tree) = record.tree.clone() else {
            return Ok(false);
        };
        let workspace = self.open_one(record, tree).await?;
        let gates = self.gates(plan, &workspace).await?;
        let resource = &record.resource_name;
        Ok(gates.iter().any(|it| it.applicable.resource == *resource))
    }

    /// Runs what gates on a merge with this sandbox's result, which stays what it is. The files are
    /// the result's again when this ends, or when the sandbox is opened next. A cancel ends it with
    /// nothing known.
    pub(crate) async fn validate_merge(
        &self,
        run: &RunLease,
        (plan, record): (&Plan, &SandboxRecord),
        tree: TreeId,
    ) -> Result<std::result::Result<ValidationSummary, Stopped>> {
        self.set_tree(record, Some(tree.clone())).await?;
        let workspace = self.open_one(record, tree.clone()).await?;
        let judged = self.validate_unless_cancelled(plan, &workspace, 1).await;
        drop(workspace);
        self.set_tree(record, record.tree.clone()).await?;
        let summary = match judged? {
            Ok(summary) => summary,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let told = json!({
            "resource": record.resource_name,
            "merge": tree,
            "required_passed": summary.required_passed,
            "required_failed": summary.required_failed,
            "informational_passed": summary.informational_passed,
            "informational_failed": summary.informational_failed,
        });
        self.tell(run, EventKind::ValidationsCompleted, told)
            .await?;
        Ok(Ok(summary))
    }

    /// One sandbox, taken to hold `tree`.
    async fn open_one(&self, record: &SandboxRecord, tree: TreeId) -> Result<Workspace> {
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let sandbox = spawn_blocking(move || sandboxes.open(id)).await??;
        let seat = Seat {
            id,
            resource: record.resource_name.clone(),
            gate: Arc::new(RwLock::new(Inside { sandbox, tree })),
        };
        Ok(Workspace {
            seats: vec![seat],
            warnings: Vec::new(),
        })
    }

    async fn set_tree(&self, record: &SandboxRecord, tree: Option<TreeId>) -> Result<()> {
        let Some(tree) = tree else {
            return Ok(());
        };
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let set = spawn_blocking(move || sandboxes.open(id)?.restore(&tree, &Stop::new()));
        Ok(set.await??)
    }
}
