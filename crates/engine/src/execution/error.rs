//! Errors of running a plan.

use cleveragents_domain::NamespacedName;
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::id::{CheckpointId, PlanId};

use super::removed_sandboxes::RedoCommand;
use crate::decisions::DecisionFailure;
use crate::lifecycle::LifecycleError;
use cleveragents_definitions::interpolation::FillError;
use cleveragents_ports::processes::ProcessError;
use cleveragents_ports::sandbox::SandboxError;
use cleveragents_ports::{StopReason, StoreError};

pub type Result<T, E = ExecutionError> = std::result::Result<T, E>;

/// Errors that prevent work on a plan or its record. Errors of the work itself are recorded with
/// the plan instead.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    Decision(#[from] DecisionFailure),
    #[error(transparent)]
    Sandbox(SandboxError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Render(#[from] FillError),
    #[error("the work was stopped: {0}")]
    Stopped(StopReason),
    #[error("plan {plan} has no strategy that was approved")]
    NoStrategy { plan: PlanId },
    #[error("the strategy of plan {plan} is not the one that was approved: its hash is {found}")]
    StrategyChanged { plan: PlanId, found: String },
    #[error(
        "checkpoint {checkpoint} was undone by a rollback to an earlier one; the state before that \
         is kept as checkpoint {by}"
    )]
    CheckpointUndone { checkpoint: i64, by: CheckpointId },
    #[error(
        "checkpoint {checkpoint} holds files from before the plan was rebased or begun again, and \
         cannot be restored"
    )]
    CheckpointBaseChanged { checkpoint: i64 },
    #[error(
        "the actor {name} is not the one that was approved with the strategy: it was changed since"
    )]
    ActorChanged { name: NamespacedName },
    #[error("there is no actor `{name}`")]
    NoActor { name: NamespacedName },
    #[error(
        "the sandbox of {resource} was removed: `{} {plan}` repeats the work in a new one", .again.command()
    )]
    SandboxRemoved {
        plan: PlanId,
        resource: NamespacedName,
        again: RedoCommand,
    },
    #[error("the sandbox of {} is on another machine, node {}", .0.resource, .0.node)]
    WrongNode(Box<WrongNode>),
    #[error("{reason}")]
    Resource { reason: String },
    /// A worker thread ended without a result.
    #[error("the work ended unexpectedly: {reason}")]
    Internal { reason: String },
}

/// The files are on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongNode {
    pub plan: PlanId,
    pub resource: NamespacedName,
    pub node: String,
    /// The operation that is possible there.
    pub operation: LocalOperation,
}

/// An operation on a plan that needs its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalOperation {
    Apply { to: Destination },
    Cancel,
    Execute,
    Rebase,
    Reject,
    Rollback,
    Unapply,
}

impl From<WrongNode> for ExecutionError {
    fn from(wrong_node: WrongNode) -> Self {
        Self::WrongNode(Box::new(wrong_node))
    }
}

impl From<SandboxError> for ExecutionError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Stopped(why) => Self::Stopped(why),
            error => Self::Sandbox(error),
        }
    }
}

impl From<StoreError> for ExecutionError {
    fn from(error: StoreError) -> Self {
        Self::Lifecycle(error.into())
    }
}

impl ExecutionError {
    /// Returns the underlying store error, if there is one.
    pub fn store(&self) -> Option<&StoreError> {
        match self {
            Self::Lifecycle(LifecycleError::Store(error))
            | Self::Decision(DecisionFailure::Lifecycle(LifecycleError::Store(error))) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// Whether another process holds a lock, so that the same request may succeed later.
    pub fn is_lock_held(&self) -> bool {
        matches!(self, Self::Sandbox(SandboxError::InUse { .. }))
    }

    /// Whether another process owns the plan now. The caller must write nothing more.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Stopped(StopReason::LeaseLost))
            || matches!(self.store(), Some(StoreError::LeaseLost { .. }))
    }
}

impl From<tokio::task::JoinError> for ExecutionError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Internal {
            reason: error.to_string(),
        }
    }
}
