//! State that all requests of a process share (law 6). It is not durable: after a restart it begins
//! empty.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::SlotQueue;
use cleveragents_ports::models::Models;

use crate::app::Adapters;
use crate::failure::RequestError;

#[derive(Debug)]
pub(crate) struct ProcessState {
    /// Stops calls of a provider that fails, whichever plan makes them.
    pub(crate) breaker: CircuitBreaker,
    pub(crate) slot_queue: SlotQueue,
    pub(crate) warnings: LoggedWarnings,
    /// `None` until a request needs them: a request that needs no model works with wrong settings.
    models: Mutex<Option<Arc<dyn Models>>>,
}

impl ProcessState {
    pub(crate) fn new() -> Self {
        Self {
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            slot_queue: SlotQueue::default(),
            warnings: LoggedWarnings::default(),
            models: Mutex::default(),
        }
    }

    /// Returns the models, which are built once.
    pub(crate) fn models(&self, adapters: &dyn Adapters) -> Result<Arc<dyn Models>, RequestError> {
        // Building connects to nothing, so the lock is held only for a moment and never across an
        // `.await` (law 7). Two callers must not build two: each would have rate limits of its own.
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(models) = &*models {
            return Ok(Arc::clone(models));
        }
        Ok(Arc::clone(models.insert(adapters.models()?)))
    }
}

/// The warnings that were logged, so that a command of several requests repeats none.
#[derive(Debug, Default)]
pub(crate) struct LoggedWarnings {
    texts: Mutex<BTreeSet<String>>,
}

impl LoggedWarnings {
    /// Records a warning. Returns whether it is new.
    pub(crate) fn is_new(&self, text: &str) -> bool {
        // A set of texts is valid at every moment, so a panic of another holder does not matter.
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(text.to_owned())
    }
}
