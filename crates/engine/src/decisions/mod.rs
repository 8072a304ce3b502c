//! Decisions: recorded by the owner of a run, readable by all, corrected by users.
//!
//! [`DecisionService`] is the service. A decision is written with its context, its influences and
//! its event in one commit (law 2). A correction supersedes decisions, adds the guidance and moves
//! the plan back, also in one commit. Start reading at [`correct`].

mod context;
mod correct;
mod error;
mod explain;
mod impact;
mod record;
mod tree;

use std::sync::Arc;

use cleveragents_domain::Correction;
use cleveragents_domain::id::PlanId;

use crate::lifecycle::PlanLifecycle;
use cleveragents_ports::{Ids, Liveness, StoreHandle, StoreOperation};

pub use context::{ContextItem, DecisionContext, StoredContext};
pub use correct::{CorrectionOutcome, CorrectionRequest, GUIDANCE_MAXIMUM};
pub use error::{DecisionFailure, Result};
pub use explain::DecisionExplanation;
pub use impact::{CorrectionPreview, Impact, ImpactLevel};
pub use record::DecisionDraft;
pub use tree::{DecisionTree, SupersededVisibility, TreeNode};

/// Service for the decisions of plans. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct DecisionService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    lifecycle: PlanLifecycle,
}

impl DecisionService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>, liveness: Arc<dyn Liveness>) -> Self {
        Self {
            lifecycle: PlanLifecycle::new(store.clone(), Arc::clone(&ids), liveness),
            store,
            ids,
        }
    }

    /// Returns the corrections of the plan's decisions, oldest first.
    pub async fn corrections(&self, plan: PlanId) -> Result<Vec<Correction>> {
        self.store
            .read(move |tx| {
                tx.plan(plan)?;
                Ok(tx.corrections_of(plan)?)
            })
            .await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}
