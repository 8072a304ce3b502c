//! Errors of applying a plan.

use crate::execution::{ExecutionError, OwnerError};
use crate::lifecycle::LifecycleError;
use cleveragents_domain::Plan;
use cleveragents_ports::StoreError;
use cleveragents_ports::targets::TargetError;

pub type Result<T, E = ApplyFailure> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum ApplyFailure {
    #[error(transparent)]
    Execution(Box<ExecutionError>),
    #[error(transparent)]
    Target(Box<TargetError>),
    #[error("cannot apply plan {}: required checks failed", plan.name)]
    ChecksFailed { plan: Box<Plan> },
    #[error("cannot force the checks of plan {}: its profile {} does not allow it", plan.name, plan.brief.automation_profile.name)]
    ForcingNotAllowed { plan: Box<Plan> },
    #[error("plan {} was never applied, so there is nothing to undo", plan.name)]
    NeverApplied { plan: Box<Plan> },
    #[error("plan {} is at {}: it has no result that could be rebased", plan.name, plan.position)]
    NoResult { plan: Box<Plan> },
    #[error("nothing of plan {} was applied, so it cannot be marked as applied: it is at {}", plan.name, plan.position)]
    NothingApplied { plan: Box<Plan> },
    #[error("no apply of plan {} was stopped, so there is nothing to settle: it is at {}", plan.name, plan.position)]
    NothingToSettle { plan: Box<Plan> },
}

impl From<ExecutionError> for ApplyFailure {
    fn from(error: ExecutionError) -> Self {
        Self::Execution(Box::new(error))
    }
}

impl From<TargetError> for ApplyFailure {
    fn from(error: TargetError) -> Self {
        Self::Target(Box::new(error))
    }
}

impl From<StoreError> for ApplyFailure {
    fn from(error: StoreError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl From<LifecycleError> for ApplyFailure {
    fn from(error: LifecycleError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl From<tokio::task::JoinError> for ApplyFailure {
    fn from(error: tokio::task::JoinError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl OwnerError for ApplyFailure {
    fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Execution(error) if error.is_lease_lost())
    }
}
