//! Errors of the decision service.

use cleveragents_domain::Position;
use cleveragents_domain::decision::DecisionError;
use cleveragents_domain::id::{DecisionId, PlanId};

use super::correct::GUIDANCE_MAXIMUM;
use crate::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

pub type Result<T, E = DecisionFailure> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum DecisionFailure {
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    Misplaced(#[from] DecisionError),
    #[error("decision {decision} was superseded by a correction")]
    Superseded { decision: DecisionId },
    #[error("a decision cannot influence itself ({decision})")]
    SelfInfluence { decision: DecisionId },
    #[error("plan {plan} is at {at}; decisions are recorded while a phase runs")]
    NotProcessing { plan: PlanId, at: Position },
    #[error("guidance is needed: state the new decision")]
    NoGuidance,
    #[error("guidance may be {GUIDANCE_MAXIMUM} bytes long, this has {length}")]
    GuidanceTooLong { length: usize },
    #[error("the stored context of decision {decision} is damaged: {reason}")]
    ContextDamaged {
        decision: DecisionId,
        reason: String,
    },
}

impl From<StoreError> for DecisionFailure {
    fn from(error: StoreError) -> Self {
        Self::Lifecycle(error.into())
    }
}
