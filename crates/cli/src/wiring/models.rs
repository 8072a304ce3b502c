//! Temporary.

use std::sync::Arc;

use cleveragents_engine::ports::models::Models;
use cleveragents_engine::system::SystemClock;
use cleveragents_models::{ConfiguredModels, ModelSettings, Proxies, ScriptSettings};

use super::Wiring;
use crate::failure::Failure;

impl Wiring {
    pub(super) fn models(&self) -> Result<Arc<dyn Models>, Failure> {
        Ok(Arc::new(ConfiguredModels::new(ModelSettings {
            providers: Vec::new(),
            models: Vec::new(),
            preferred: None,
            scripts: ScriptSettings {
                folder: "/".into(),
                variables: Arc::new(|_| None),
            },
            proxies: Proxies::default(),
            clock: Arc::new(SystemClock),
        })?))
    }
}
