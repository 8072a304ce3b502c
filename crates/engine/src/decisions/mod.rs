//! Decisions: recorded by the owner of a run, read by everybody, corrected by people.
//!
//! [`DecisionService`] is the service. A decision is written with what its actor knew, its
//! influences and its event in one commit (law 2); a correction supersedes what it touches, puts
//! the guidance in its place and sends the plan back in another. Start reading at [`correct`].

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
use crate::ports::{Ids, Liveness, StoreHandle, StoreOperation};

pub use context::{ContextItem, DecisionContext, StoredContext};
pub use correct::{CorrectionOutcome, CorrectionRequest, GUIDANCE_MAXIMUM};
pub use error::{DecisionFailure, Result};
pub use explain::DecisionExplanation;
pub use impact::{CorrectionPreview, Impact, ImpactLevel};
pub use record::DecisionDraft;
pub use tree::{DecisionTree, SupersededVisibility, TreeNode};

/// The decisions of plans, for as many callers at once as there are.
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

    /// The attempts to correct the plan's decisions, oldest first.
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
