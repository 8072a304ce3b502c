//! State that all requests of a process share (law 6). It is not durable: after a restart it begins
//! empty.

use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_api::Message;
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
    pub(crate) warnings: SentWarnings,
    /// Built when a request needs them: a request that needs no model works with wrong settings.
    /// All requests share them, because a second value would have rate limits of its own.
    models: BuildOnce<Arc<dyn Models>>,
}

impl ProcessState {
    pub(crate) fn new() -> Self {
        Self {
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            slot_queue: SlotQueue::default(),
            warnings: SentWarnings::default(),
            models: BuildOnce::default(),
        }
    }

    /// Returns the models, which are built once.
    pub(crate) fn models(&self, adapters: &dyn Adapters) -> Result<Arc<dyn Models>, RequestError> {
        self.models.get_or_build(|| adapters.models())
    }
}

/// The warnings that users of this process got, so that a command of several requests repeats none.
#[derive(Debug, Default)]
pub(crate) struct SentWarnings {
    warnings: Mutex<Vec<Vec<Message>>>,
}

impl SentWarnings {
    /// Records a warning with its next steps. Returns whether it is new.
    pub(crate) fn is_new(&self, warning: &[Message]) -> bool {
        // A list of warnings is valid at every moment, so a panic of another holder does not matter.
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.iter().any(|it| it == warning) {
            return false;
        }
        warnings.push(warning.to_vec());
        true
    }
}
