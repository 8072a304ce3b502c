//! The items of a watch of one plan: its events, and its progress between them.

use cleveragents_domain::progress::Progress;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::log::JournalEvent;

/// An item of a watch of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WatchItem {
    /// Durable and numbered; none is missing and none comes twice.
    Events { events: Vec<JournalEvent> },
    /// Of a plan that runs in the process of the watch; may be lost.
    Progress { progress: Progress },
}

impl WatchItem {
    /// Returns the JSON Schema of an item.
    pub fn schema() -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        generator.into_root_schema_for::<Self>().to_value()
    }
}
