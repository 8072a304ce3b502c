//! Projects and resources: what plans work on. Every change is one transaction with its events on
//! the installation's own record (laws 1 and 2); what a path is was found out before, by whoever
//! may look at files.
//!
//! [`ProjectService`] is the service. Start reading at [`making`], then [`deletion`].

mod deletion;
mod error;
mod looking;
mod making;
mod resources;

use std::sync::Arc;

use cleveragents_domain::{NewEvent, StreamId};

use crate::lifecycle::PlanLifecycle;
use crate::ports::{Ids, Liveness, Operation, StoreHandle, Unit};

pub use deletion::{Deleted, Force};
pub use error::{ProjectError, Result};
pub use looking::{Map, ProjectView, ResourceView};
pub use making::{Created, Found, NewProject};
pub use resources::{Linking, Unlinking};

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

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// Puts what happened on the installation's record, last of all: who waits for its stream then
/// holds everything else already.
fn record(unit: &mut dyn Unit, events: &[NewEvent]) -> Result<()> {
    unit.append(StreamId::System, events)?;
    Ok(())
}
