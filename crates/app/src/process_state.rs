//! State that all requests of a process share (law 6). It is not durable: after a restart it begins
//! empty.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::SlotQueue;
use cleveragents_ports::models::Models;

use crate::app::Adapters;
use crate::build_once::BuildOnce;
use crate::failure::RequestError;

#[derive(Debug)]
pub(crate) struct ProcessState {
    /// Stops calls of a provider that fails, whichever plan makes them.
    pub(crate) breaker: CircuitBreaker,
    pub(crate) slot_queue: SlotQueue,
    pub(crate) warnings: LoggedWarnings,
    /// Built when a request needs them: a request that needs no model works with wrong settings.
    /// All requests share them, because a second value would have rate limits of its own.
    models: BuildOnce<Arc<dyn Models>>,
}

impl ProcessState {
    pub(crate) fn new() -> Self {
        Self {
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            slot_queue: SlotQueue::default(),
            warnings: LoggedWarnings::default(),
            models: BuildOnce::default(),
        }
    }

    /// Returns the models, which are built once.
    pub(crate) fn models(&self, adapters: &dyn Adapters) -> Result<Arc<dyn Models>, RequestError> {
        self.models.get_or_build(|| adapters.models())
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
