//! Validates a rebased result, and merges with targets that have moved.
//!
//! A rebased result ends like the Execute phase. Failures are not repaired here: that is work for
//! the plan's actor, started by `plan execute`.

use std::sync::Arc;

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{EventKind, Plan, TreeId, ValidationSummary};
use serde_json::json;
use tokio::sync::{RwLock, watch};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::{ExecuteOutcome, Executor};
use super::workspace::{OpenSandbox, SandboxHandle, Workspace};
use crate::runs::RunLease;
use cleveragents_ports::{StopReason, StopSignal};

impl Executor {
    /// Runs the gates on the sandboxes' recorded trees and leaves the plan complete or constrained.
    /// The plan must be in Execute with all of its steps done.
    pub(super) async fn validate_rebased(
        &self,
        run: &RunLease,
        stop: &watch::Receiver<Option<StopReason>>,
    ) -> Result<ExecuteOutcome> {
        let plan = self.lifecycle.plan(run.lease().plan).await?;
        let limit = plan.brief.automation_profile.limits.validation_retry_limit;
        let round = self.first_round(&plan, limit).await?;
        // Refused changes that the user has not seen stay in the list.
        let listed = self.listed_refusals(&plan).await?;
        let opener = self.sandbox_opener(run);
        let workspace = opener.open_sandboxes(&plan).await?;
        let validation = self.validate_round(&plan, &workspace, round, stop);
        let summary = validation.await?.map_err(ExecutionError::Stopped)?;
        let results = summary.results.into_iter().chain(listed);
        let summary = ValidationSummary::new(results.collect());
        self.store_summary(run, &plan, round, &summary).await?;
        let sandbox_ids: Vec<SandboxId> = workspace.sandboxes.iter().map(|it| it.id).collect();
        drop(workspace);
        let end = self
            .finish_execute((run, stop), &plan, &opener, (&sandbox_ids, summary))
            .await?;
        self.end_phase(run, end).await
    }

    /// Whether any gate applies to this sandbox.
    pub(crate) async fn has_gates(&self, plan: &Plan, record: &SandboxRecord) -> Result<bool> {
        let Some(tree) = record.tree.clone() else {
            return Ok(false);
        };
        let workspace = self.open_single_sandbox(record, tree).await?;
        let gates = self.gates(plan, &workspace).await?;
        let resource = &record.resource_name;
        Ok(gates.iter().any(|it| it.applicable.resource == *resource))
    }

    /// Runs the gates on a merge with this sandbox's result, without changing the result. The
    /// result's files are restored when this returns, or when the sandbox is opened next. A cancel
    /// request stops it without a verdict.
    pub(crate) async fn validate_merge(
        &self,
        run: &RunLease,
        (plan, record): (&Plan, &SandboxRecord),
        tree: TreeId,
    ) -> Result<std::result::Result<ValidationSummary, StopReason>> {
        self.restore_tree(record, Some(tree.clone())).await?;
        let workspace = self.open_single_sandbox(record, tree.clone()).await?;
        let validation = self.validate_unless_cancelled(plan, &workspace, 1).await;
        drop(workspace);
        self.restore_tree(record, record.tree.clone()).await?;
        let summary = match validation? {
            Ok(summary) => summary,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let payload = json!({
            "resource": record.resource_name,
            "merge": tree,
            "required_passed": summary.required_passed,
            "required_failed": summary.required_failed,
            "informational_passed": summary.informational_passed,
            "informational_failed": summary.informational_failed,
        });
        self.append_event(run, EventKind::ValidationsCompleted, payload)
            .await?;
        Ok(Ok(summary))
    }

    /// Opens one sandbox as if `tree` were its tree.
    async fn open_single_sandbox(&self, record: &SandboxRecord, tree: TreeId) -> Result<Workspace> {
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let sandbox = spawn_blocking(move || sandboxes.open(id)).await??;
        let handle = SandboxHandle {
            id,
            resource: record.resource_name.clone(),
            lock: Arc::new(RwLock::new(OpenSandbox { sandbox, tree })),
        };
        Ok(Workspace {
            sandboxes: vec![handle],
            warnings: Vec::new(),
        })
    }

    async fn restore_tree(&self, record: &SandboxRecord, tree: Option<TreeId>) -> Result<()> {
        let Some(tree) = tree else {
            return Ok(());
        };
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let set = spawn_blocking(move || sandboxes.open(id)?.restore(&tree, &StopSignal::new()));
        Ok(set.await??)
    }
}
