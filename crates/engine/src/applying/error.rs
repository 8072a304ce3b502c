//! Why a plan could not be applied.

use crate::execution::ExecutionError;
use crate::lifecycle::LifecycleError;
use crate::ports::StoreError;
use crate::ports::targets::TargetError;
use cleveragents_domain::Plan;

pub type Result<T, E = ApplyFailure> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum ApplyFailure {
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("plan {} was never applied, so there is nothing to take back", plan.name)]
    NeverApplied { plan: Box<Plan> },
}

impl From<StoreError> for ApplyFailure {
    fn from(error: StoreError) -> Self {
        Self::Execution(error.into())
    }
}

impl From<LifecycleError> for ApplyFailure {
    fn from(error: LifecycleError) -> Self {
        Self::Execution(error.into())
    }
}

impl From<tokio::task::JoinError> for ApplyFailure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Execution(error.into())
    }
}

impl ApplyFailure {
    /// Whether another process has the plan now.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Execution(error) if error.is_lease_lost())
    }
}
