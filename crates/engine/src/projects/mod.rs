//! Projects and resources: what plans work on. Every change is one transaction with its events on
//! the installation's own record (laws 1 and 2); what a path is was found out before, by whoever
//! may look at files.
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
use crate::ports::{Ids, Liveness, StoreHandle, StoreOperation, Transaction};

pub use creation::{CreatedProject, LocatedResource, NewProject};
pub use deletion::{ActivePlanPolicy, DeletedProject};
pub use error::{ProjectError, Result};
pub use resources::{LinkOutcome, UnlinkOutcome};
pub use views::{ProjectMap, ProjectView, ResourceView};

/// Projects and resources, for as many callers at once as there are.
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

/// Puts what happened on the installation's record, last of all: who waits for its stream then
/// holds everything else already.
fn append_events(tx: &mut dyn Transaction, events: &[NewEvent]) -> Result<()> {
    tx.append(StreamId::System, events)?;
    Ok(())
}
