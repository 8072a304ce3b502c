//! Actors that users have defined. The built-in ones are code and never stored.

use cleveragents_domain::{Actor, NamespacedName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Result, StoreError};

/// A stored actor and the version that guards it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActorRow {
    pub actor: Actor,
    /// What the definition says, as a hash: another that says the same has the same.
    pub hash: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: i64,
}

impl ActorRow {
    /// The row of an actor that is new at `at`.
    pub fn new(actor: Actor, at: Timestamp) -> Result<Self> {
        Ok(Self {
            hash: content_hash(&actor)?,
            actor,
            created_at: at,
            updated_at: at,
            version: 1,
        })
    }
}

/// The hash of what a definition says, whatever its file looked like.
pub(super) fn content_hash(definition: &impl Serialize) -> Result<String> {
    // Keys of JSON objects stand in order, so one content has one text.
    let text = serde_json::to_value(definition).map_err(StoreError::internal)?;
    Ok(blake3::hash(text.to_string().as_bytes())
        .to_hex()
        .to_string())
}

pub trait ActorRecords {
    /// Stores a new actor; a taken name is `Taken`, saying since when.
    fn insert_actor(&mut self, row: &ActorRow) -> Result<()>;

    /// Replaces the actor of the same name if `row.version` is still the newest; answers with the
    /// next version. When it was made stays.
    fn replace_actor(&mut self, row: &ActorRow) -> Result<i64>;

    fn actor(&mut self, name: &NamespacedName) -> Result<ActorRow>;

    /// All stored actors, by name.
    fn actors(&mut self) -> Result<Vec<ActorRow>>;

    /// Removes the actor if `row.version` is still the newest.
    fn delete_actor(&mut self, row: &ActorRow) -> Result<()>;
}
