//! Removes a part from a plan's result at the user's request.
//!
//! The request is recorded before anything is done: as a decision with its reason, a checkpoint of
//! the state before, and a started call. Then the files are changed and the call ends with its
//! changes. From then on earlier validation results are void: the gates run again, and Apply is
//! refused until they have.

mod record;
mod target;

use std::sync::Arc;

use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::event::payloads::ChangeRejected;
use cleveragents_domain::id::{AttachmentId, DecisionId, PlanId, ToolCallId};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{
    NamespacedName, Phase, Plan, PlanState, PointOfNoReturn, ResourcePath, TreeId, ValidationMode,
    ValidationResult, ValidationSummary,
};
use tokio::task::spawn_blocking;

pub(super) use self::record::rejections_after;
use self::record::{RejectionEnd, RejectionRecord, RejectionStart, new_changes, tool_name};
use self::target::{RejectionTarget, find_target};
use super::error::{ExecutionError, LocalOperation};
use super::executor::Executor;
use super::ownership::{Owned, OwnerError, claim_run, own_plan, validate_unless_cancelled};
use super::plan_run::PlanRun;
use super::results::{ResultReader, ResultsError, Selection};
use super::services::EngineServices;
use super::unfinished_work::interrupt_unfinished;
use super::validate::newest_summary;
use super::validator::Validator;
use super::workspace::{SandboxHandle, Workspace};
use cleveragents_ports::StoreError;
use cleveragents_ports::sandbox::NetChange;
use cleveragents_ports::stop::StopSignal;

/// A request to reject a part of a result.
#[derive(Debug, Clone)]
pub struct Rejection {
    pub plan: PlanId,
    /// The resource; required if several have the path.
    pub resource: Option<NamespacedName>,
    /// The file, percent-encoded as displayed, or raw.
    pub path: String,
    /// Number of the hunk, starting at 1. The whole file if `None`.
    pub hunk: Option<u32>,
    pub why: String,
    /// The acting user, for the journal.
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RejectOutcome {
    pub plan: Plan,
    pub resource: NamespacedName,
    pub path: ResourcePath,
    /// `None` if the whole file was removed.
    pub hunk: Option<u32>,
    /// The state before. A rollback to it undoes the rejection.
    pub checkpoint: Checkpoint,
    pub changes: Vec<ResourcePath>,
    pub validation: ValidationSummary,
}

/// Error of a rejection that changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum RejectError {
    #[error(transparent)]
    Execution(Box<ExecutionError>),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("a rejection needs a reason")]
    NoReason,
    #[error("{path} has no hunk {hunk}")]
    NoHunk {
        path: ResourcePath,
        hunk: u32,
        hunks: usize,
    },
    #[error("several resources of the plan have a change of this path")]
    AmbiguousPath { resources: Vec<NamespacedName> },
    #[error("plan {} is at {}: it has no result to reject", plan.name, plan.position)]
    NoResult { plan: Box<Plan> },
}

impl From<ExecutionError> for RejectError {
    fn from(error: ExecutionError) -> Self {
        Self::Execution(Box::new(error))
    }
}

impl From<StoreError> for RejectError {
    fn from(error: StoreError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl OwnerError for RejectError {
    fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Execution(error) if error.is_lease_lost())
    }
}

type Result<T, E = RejectError> = std::result::Result<T, E>;

impl Executor {
    /// Removes a file or one of its hunks from the plan's result and validates the rest. The plan
    /// stays in its position.
    pub async fn reject(&self, rejection: &Rejection) -> Result<RejectOutcome> {
        if rejection.why.trim().is_empty() {
            return Err(RejectError::NoReason);
        }
        let services = &self.services;
        let plan = services.lifecycle.plan(rejection.plan).await;
        let plan = require_result(plan.map_err(ExecutionError::from)?)?;
        services
            .require_local(rejection.plan, LocalOperation::Reject)
            .await?;
        let lease = claim_run(services, rejection.plan, plan.position.phase()).await?;
        let rejected = own_plan(services, lease, async |run: &mut PlanRun| {
            ResultEditor { run }.reject(rejection).await
        });
        Ok(rejected.await?.outcome)
    }

    /// Validates a result whose rejection was recorded but not validated, because its process died.
    pub(super) async fn revalidate_rejected(&self, plan: Plan) -> Result<Plan, ExecutionError> {
        let (id, services) = (plan.identity.plan_id, &self.services);
        if require_result(plan.clone()).is_err() || !is_stale(services, &plan).await? {
            return Ok(plan);
        }
        let lease = claim_run(services, id, plan.position.phase()).await?;
        let validated = own_plan(services, lease, async |run: &mut PlanRun| {
            ResultEditor { run }.revalidate().await?;
            Ok::<_, ExecutionError>(run.plan.clone())
        });
        let Owned { outcome, cancelled } = validated.await?;
        Ok(cancelled.unwrap_or(outcome))
    }
}

/// Whether Apply is blocked because nothing was validated since a rejection.
async fn is_stale(services: &EngineServices, plan: &Plan) -> Result<bool, ExecutionError> {
    let newest = newest_summary(&services.store, plan).await?;
    let of_rejection = |it: &ValidationResult| it.validation == tool_name();
    Ok(newest.is_some_and(|summary| summary.results.iter().any(of_rejection)))
}

/// Changes the result of an owned plan.
struct ResultEditor<'a> {
    run: &'a PlanRun,
}

impl ResultEditor<'_> {
    async fn reject(&self, rejection: &Rejection) -> Result<RejectOutcome> {
        let (run, services) = (self.run, &self.run.services);
        let plan = require_result(run.plan.clone())?;
        interrupt_unfinished(services, &run.lease).await?;
        let results = ResultReader::new(
            services.store.clone(),
            Arc::clone(&services.sandboxes),
            services.node.clone(),
        );
        let selection = Selection {
            resource: rejection.resource.clone(),
            paths: Vec::new(),
        };
        let diff = results.diff(rejection.plan, selection).await?;
        let target = find_target(&diff, rejection)?;
        let (tree, changes) = self.compute_tree(&target).await?;
        let round = self.next_round().await?;
        let context = run.context();
        let changeset = context
            .start_changeset(target.record.id, plan.attempt, None)
            .await?;
        let start = self.begin_rejection(rejection, &target).await?;
        self.restore_sandbox(target.record.clone(), tree.clone())
            .await?;
        let ended = RejectionEnd {
            start: start.clone(),
            changeset: changeset.clone(),
            changes: new_changes(&start.call, &changes),
            tree,
            stale: self.stale_summary(&target, round),
            round,
            rejected: ChangeRejected {
                path: target.path.clone(),
                hunk: target.hunk,
                why: rejection.why.clone(),
            },
            actor: rejection.actor.clone(),
        };
        run.lease
            .write(run.operation("reject.end"), move |tx| ended.write(tx))
            .await?;
        changeset.close().await?;
        let validation = self.validate_rest(round).await?;
        Ok(RejectOutcome {
            resource: target.record.resource_name,
            path: target.path,
            hunk: target.hunk,
            checkpoint: start.checkpoint,
            changes: changes.into_iter().map(|it| it.path).collect(),
            validation,
            plan,
        })
    }

    /// Validates a result that is still blocked by a rejection.
    async fn revalidate(&self) -> Result<(), ExecutionError> {
        let run = self.run;
        // Another process may have done it before our claim.
        if !is_stale(&run.services, &run.plan).await? {
            return Ok(());
        }
        interrupt_unfinished(&run.services, &run.lease).await?;
        let validation = async {
            let round = self.next_round().await?;
            self.validate_rest(round).await
        };
        match validation.await {
            Ok(_) => Ok(()),
            Err(RejectError::Execution(error)) => Err(*error),
            Err(error) => Err(ExecutionError::Internal {
                reason: error.to_string(),
            }),
        }
    }

    /// Computes the tree without the rejected part, and the changes to get there. Changes no files.
    async fn compute_tree(&self, target: &RejectionTarget) -> Result<(TreeId, Vec<NetChange>)> {
        let (sandboxes, target) = (Arc::clone(&self.run.services.sandboxes), target.clone());
        let computed = spawn_blocking(move || {
            let record = &target.record;
            let (Some(base), Some(now)) = (&record.base_tree, &record.tree) else {
                let reason = format!("sandbox {} has no tree on record", record.id);
                return Err(ExecutionError::Internal { reason });
            };
            let sandbox = sandboxes.open(record.id)?;
            let tree = sandbox.tree_without(base, now, &target.part)?;
            let changes = sandbox.net_changes(now, &tree, &StopSignal::new())?;
            Ok((tree, changes))
        });
        Ok(computed.await.map_err(ExecutionError::from)??)
    }

    async fn restore_sandbox(&self, record: SandboxRecord, tree: TreeId) -> Result<()> {
        let sandboxes = Arc::clone(&self.run.services.sandboxes);
        let set = spawn_blocking(move || {
            sandboxes
                .open(record.id)?
                .restore(&tree, &StopSignal::new())
        });
        let set = set.await.map_err(ExecutionError::from)?;
        Ok(set.map_err(ExecutionError::from)?)
    }

    /// Records the request: a decision, a checkpoint and a started call.
    async fn begin_rejection(
        &self,
        rejection: &Rejection,
        target: &RejectionTarget,
    ) -> Result<RejectionRecord> {
        let services = &self.run.services;
        let start = RejectionStart {
            services: Arc::clone(services),
            plan: self.run.plan.clone(),
            rejection: rejection.clone(),
            target: target.clone(),
            call: ToolCallId::new(services.ids.next()),
            decision: DecisionId::new(services.ids.next()),
        };
        let operation = services.operation("reject.begin");
        let record = self.run.lease.write(operation, move |tx| start.write(tx));
        Ok(record.await?)
    }

    /// Returns the number after the last validation round of this attempt.
    async fn next_round(&self) -> Result<u32> {
        let newest = newest_summary(&self.run.services.store, &self.run.plan).await?;
        let Some(summary) = newest else {
            return Ok(1);
        };
        let last = summary.results.iter().map(|it| it.attempt).max();
        Ok(last.unwrap_or(1).saturating_add(1))
    }

    /// Builds the summary that blocks Apply until everything is validated again.
    fn stale_summary(&self, target: &RejectionTarget, round: u32) -> ValidationSummary {
        ValidationSummary::new(vec![ValidationResult {
            validation: tool_name(),
            mode: ValidationMode::Required,
            passed: false,
            message: Some(format!(
                "a part of {} was rejected, and nothing was validated since: `agents plan execute` \
                 does that",
                target.path
            )),
            data: None,
            duration_ms: 0,
            attempt: round,
            attachment_id: AttachmentId::new(self.run.services.ids.next()),
            attachment_resource: target.record.resource_name.clone(),
            attachment_scope: AttachmentScopeKind::Plan,
            attachment_scope_target: Some(self.run.id().to_string()),
        }])
    }

    /// Runs all gates on the remaining result and publishes it.
    async fn validate_rest(&self, round: u32) -> Result<ValidationSummary> {
        let (run, services) = (self.run, &self.run.services);
        let records = services.sandboxes_of(run.id()).await?;
        let mut workspace = Workspace {
            sandboxes: Vec::with_capacity(records.len()),
            warnings: Vec::new(),
        };
        for record in &records {
            let Some(tree) = record.tree.clone() else {
                continue;
            };
            self.restore_sandbox(record.clone(), tree.clone()).await?;
            let (sandboxes, id) = (Arc::clone(&services.sandboxes), record.id);
            let opened = spawn_blocking(move || sandboxes.open(id)).await;
            let sandbox = opened.map_err(ExecutionError::from)?;
            let sandbox = sandbox.map_err(ExecutionError::from)?;
            let handle = SandboxHandle::new(record, sandbox, tree);
            workspace.sandboxes.push(handle);
        }
        let validator = Validator {
            services,
            plan: &run.plan,
        };
        let validation = validate_unless_cancelled(&validator, &workspace, round).await?;
        let summary = validation.map_err(ExecutionError::Stopped)?;
        drop(workspace);
        for record in &records {
            services.publish(&run.plan, record, None).await?;
        }
        run.store_summary(round, &summary).await?;
        Ok(summary)
    }
}

/// Returns the plan if it has a complete result that is not applied, else fails.
fn require_result(plan: Plan) -> Result<Plan> {
    let position = plan.position;
    let has = match position.phase() {
        Phase::Strategize => false,
        Phase::Execute => matches!(
            position.state(),
            PlanState::Complete | PlanState::Constrained
        ),
        Phase::Apply => {
            position.point_of_no_return() == PointOfNoReturn::Ahead
                && matches!(
                    position.state(),
                    PlanState::Queued | PlanState::Constrained | PlanState::Errored
                )
        }
    };
    if has {
        Ok(plan)
    } else {
        Err(RejectError::NoResult {
            plan: Box::new(plan),
        })
    }
}
