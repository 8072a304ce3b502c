//! Validates a rebased result, and merges with targets that have moved.
//!
//! A rebased result ends like the Execute phase. Failures are not repaired here: that is work for
//! the plan's actor, started by `plan execute`.

use std::sync::Arc;

use cleveragents_domain::event::payloads::ValidationsCompleted;
use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{Plan, TreeId, ValidationSummary};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::ExecuteOutcome;
use super::ownership::validate_unless_cancelled;
use super::plan_run::{PlanRun, append_event};
use super::refused_changes::listed_refusals;
use super::services::{EngineServices, PlanActors};
use super::validate::first_round;
use super::validator::Validator;
use super::workspace::{SandboxHandle, Workspace};
use crate::runs::RunLease;
use cleveragents_ports::{StopReason, StopSignal};

impl PlanRun {
    /// Runs the gates on the sandboxes' recorded trees and leaves the plan complete or constrained.
    /// The plan must be in Execute with all of its steps done.
    pub(super) async fn validate_rebased(&mut self) -> Result<ExecuteOutcome> {
        // A run of a plan that was in Apply has no actors yet.
        if self.actors.is_empty() {
            self.actors = PlanActors::load(&self.services, &self.plan).await?;
        }
        let store = &self.services.store;
        let round = first_round(store, &self.plan).await?;
        // Refused changes that the user has not seen stay in the list.
        let listed = listed_refusals(store, &self.plan).await?;
        let workspace = self.sandbox_opener().open_sandboxes(&self.plan).await?;
        let validator = Validator {
            services: &self.services,
            plan: &self.plan,
        };
        let validation = validator.validate_round(&workspace, round, &self.stop);
        let summary = validation.await?.map_err(ExecutionError::Stopped)?;
        let results = summary.results.into_iter().chain(listed);
        let summary = ValidationSummary::new(results.collect());
        self.store_summary(round, &summary).await?;
        let sandbox_ids: Vec<SandboxId> = workspace.sandboxes.iter().map(|it| it.id).collect();
        drop(workspace);
        let end = self.finish_execute(&sandbox_ids, summary).await?;
        self.end_phase(end).await
    }
}

/// Validates merges of a plan's result with targets that have moved.
pub(crate) struct MergeValidator<'a> {
    pub(crate) services: &'a EngineServices,
    pub(crate) plan: &'a Plan,
    pub(crate) sandbox: &'a SandboxRecord,
}

impl MergeValidator<'_> {
    /// Whether any gate applies to this sandbox.
    pub(crate) async fn has_gates(&self) -> Result<bool> {
        let Some(tree) = self.sandbox.tree.clone() else {
            return Ok(false);
        };
        let workspace = self.open_sandbox(tree).await?;
        let gates = self.validator().gates(&workspace).await?;
        let resource = &self.sandbox.resource_name;
        Ok(gates.iter().any(|it| it.applicable.resource == *resource))
    }

    /// Runs the gates on a merge with this sandbox's result, without changing the result. The
    /// result's files are restored when this returns, or when the sandbox is opened next. A cancel
    /// request stops it without a verdict.
    pub(crate) async fn validate(
        &self,
        run: &RunLease,
        tree: TreeId,
    ) -> Result<std::result::Result<ValidationSummary, StopReason>> {
        let record = self.sandbox;
        self.restore_tree(Some(tree.clone())).await?;
        let workspace = self.open_sandbox(tree.clone()).await?;
        let validation = validate_unless_cancelled(&self.validator(), &workspace, 1).await;
        drop(workspace);
        self.restore_tree(record.tree.clone()).await?;
        let summary = match validation? {
            Ok(summary) => summary,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let payload = ValidationsCompleted {
            round: None,
            resource: Some(record.resource_name.clone()),
            merge: Some(tree),
            required_passed: summary.required_passed,
            required_failed: summary.required_failed,
            informational_passed: summary.informational_passed,
            informational_failed: summary.informational_failed,
        };
        append_event(self.services, run, payload).await?;
        Ok(Ok(summary))
    }

    fn validator(&self) -> Validator<'_> {
        Validator {
            services: self.services,
            plan: self.plan,
        }
    }

    /// Opens the sandbox as if `tree` were its tree.
    async fn open_sandbox(&self, tree: TreeId) -> Result<Workspace> {
        let (sandboxes, id) = (Arc::clone(&self.services.sandboxes), self.sandbox.id);
        let sandbox = spawn_blocking(move || sandboxes.open(id)).await??;
        Ok(Workspace {
            sandboxes: vec![SandboxHandle::new(self.sandbox, sandbox, tree)],
            warnings: Vec::new(),
        })
    }

    async fn restore_tree(&self, tree: Option<TreeId>) -> Result<()> {
        let Some(tree) = tree else {
            return Ok(());
        };
        let (sandboxes, id) = (Arc::clone(&self.services.sandboxes), self.sandbox.id);
        let set = spawn_blocking(move || sandboxes.open(id)?.restore(&tree, &StopSignal::new()));
        Ok(set.await??)
    }
}
