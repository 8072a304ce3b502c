//! The lifecycle of actions and plans: every move is one transaction that reads, checks and
//! writes the plan and its event together (laws 1 and 2). Nothing is cached.
//!
//! [`PlanLifecycle`] is the service. A plan that runs is moved only by its owner, through the
//! [`RunLease`](crate::runs::RunLease) that fences every write (law 5); what others want of it is
//! a message. Start reading at [`moves`], which all moves go through.

pub(crate) mod actions;
mod budget;
pub(crate) mod commands;
mod error;
mod known_owner;
pub(crate) mod moves;
mod owner;
mod preflight;
mod removal;
mod using;

use std::sync::Arc;

use cleveragents_domain::Plan;
use cleveragents_domain::id::{IdFragment, PlanId};

use crate::ports::{Ids, Liveness, Operation, PlanFilter, PlanPage, StoreHandle};
use crate::secrets::Secrets;

pub(crate) use actions::until_undisturbed;
pub use commands::{Addressee, Cancelled, Prompted};
pub use error::{LifecycleError, Result};
pub use moves::{Moved, PhaseRecord, StateRecord, phase_operation};
pub use preflight::{CHECKS, Preflight, PreflightFailure, Surroundings};
pub use removal::{Erased, Erasure};
pub use using::{ActionChoice, UseRequest};

pub(crate) use commands::{evict, hold_unowned, live_run, move_unowned_plan, refuse_owned};
pub(crate) use known_owner::KnownOwner;
pub(crate) use moves::{
    Repeats, Request, effective_invariants, event, frozen_invariants, move_plan,
};

/// Actions and plans, for as many callers at once as there are.
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

    /// The same, where these secrets are stored as references in what plans are made of.
    #[must_use]
    pub fn masking(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    pub async fn plan(&self, id: PlanId) -> Result<Plan> {
        self.store.read(move |unit| Ok(unit.plan(id)?)).await
    }

    /// The one plan whose id begins or ends with `fragment`.
    pub async fn find_plan(&self, fragment: IdFragment) -> Result<Plan> {
        self.store
            .read(move |unit| Ok(unit.find_plan(&fragment)?))
            .await
    }

    /// The plans that match, newest first.
    pub async fn list_plans(&self, filter: PlanFilter) -> Result<PlanPage> {
        self.store
            .read(move |unit| Ok(unit.list_plans(&filter)?))
            .await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}
