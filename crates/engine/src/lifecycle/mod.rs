//! The lifecycle of actions and plans. Every move is one transaction that reads, checks and writes
//! the plan together with its event (laws 1 and 2). Nothing is cached.
//!
//! [`PlanLifecycle`] is the service. A running plan is moved only by its owner, through the
//! [`RunLease`](crate::runs::RunLease) that fences every write (law 5); others send messages. Start
//! reading at [`moves`], which all moves go through.

pub(crate) mod actions;
mod budget;
pub(crate) mod commands;
mod error;
pub(crate) mod moves;
mod owner_moves;
mod preflight;
mod proven_owner;
mod removal;
mod request_fingerprint;
mod use_action;

use std::sync::Arc;

use cleveragents_domain::Plan;
use cleveragents_domain::id::{IdFragment, PlanId};

use crate::secrets::Secrets;
use cleveragents_ports::{Ids, Liveness, PlanFilter, PlanPage, StoreHandle, StoreOperation};

pub use actions::ActionRegistry;
pub(crate) use actions::retry_on_conflict;
pub use commands::{CancelOutcome, MessageRecipient, PromptOutcome};
pub use error::{LifecycleError, Result};
pub use moves::{PlanMoveOutcome, phase_operation};
pub use owner_moves::PlanOwner;
pub use preflight::{Preflight, PreflightProbe};
pub use removal::{PlanPurgeRequest, PurgeOutcome};
pub use use_action::{ActionChoice, UseActionRequest};

pub(crate) use commands::{evict, hold_unowned, live_run, move_unowned_plan, refuse_owned};
pub(crate) use moves::{
    PlanMoveRequest, RepeatPolicy, UserDecision, effective_invariants, frozen_invariants,
    move_plan, record_user_decision, supersede_strategies,
};
pub(crate) use proven_owner::ProvenOwner;

/// Service for actions and plans. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct PlanLifecycle {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    liveness: Arc<dyn Liveness>,
    secrets: Secrets,
}

impl PlanLifecycle {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>, liveness: Arc<dyn Liveness>) -> Self {
        Self {
            store,
            ids,
            liveness,
            secrets: Secrets::default(),
        }
    }

    /// Returns the service with these secrets. They are stored as references in the plans it
    /// creates.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    pub async fn plan(&self, id: PlanId) -> Result<Plan> {
        self.store.read(move |tx| Ok(tx.plan(id)?)).await
    }

    /// Returns the plan whose id starts or ends with `fragment`. Fails unless exactly one matches.
    pub async fn find_plan(&self, fragment: IdFragment) -> Result<Plan> {
        self.store
            .read(move |tx| Ok(tx.find_plan(&fragment)?))
            .await
    }

    /// Returns the matching plans, newest first.
    pub async fn list_plans(&self, filter: PlanFilter) -> Result<PlanPage> {
        self.store.read(move |tx| Ok(tx.list_plans(&filter)?)).await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}
