//! Projects and resources: what plans work on. Every change is one transaction with its events in
//! the system stream (laws 1 and 2). Files are not inspected here: the caller passes in what it
//! found.
//!
//! [`ProjectService`] is the service. Start reading at [`creation`], then [`deletion`].

mod creation;
mod deletion;
mod error;
mod resources;
mod views;

use std::sync::Arc;

use cleveragents_domain::{NewEvent, StreamId};

use crate::lifecycle::PlanLifecycle;
use cleveragents_ports::{Ids, Liveness, StoreHandle, StoreOperation, Transaction};

pub use creation::{CreatedProject, LocatedResource, NewProject};
pub use deletion::{ActivePlanPolicy, DeletedProject};
pub use error::{ProjectError, Result};
pub use resources::{LinkOutcome, UnlinkOutcome};
pub use views::{ProjectMap, ProjectView, ResourceView};

/// Service for projects and resources. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct ProjectService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    liveness: Arc<dyn Liveness>,
    lifecycle: PlanLifecycle,
}

impl ProjectService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>, liveness: Arc<dyn Liveness>) -> Self {
        let lifecycle = PlanLifecycle::new(store.clone(), Arc::clone(&ids), Arc::clone(&liveness));
        Self {
            store,
            ids,
            liveness,
            lifecycle,
        }
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// Appends to the system stream. Must come last, so that a transaction that waits for the stream
/// already holds all its other locks.
fn append_events(tx: &mut dyn Transaction, events: &[NewEvent]) -> Result<()> {
    tx.append(StreamId::System, events)?;
    Ok(())
}
