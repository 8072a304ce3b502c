//! Actors defined by users. The built-in ones are code and never stored.

use cleveragents_domain::{Actor, NamespacedName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Result, StoreError};

/// A stored actor with its version for optimistic locking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActorRow {
    pub actor: Actor,
    /// Hash of the definition's content; equal content has an equal hash.
    pub hash: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: i64,
}

impl ActorRow {
    /// Creates the row of a new actor.
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

/// Returns the hash of a definition's content, independent of the formatting of its file.
pub(super) fn content_hash(definition: &impl Serialize) -> Result<String> {
    // Keys of JSON objects are sorted, so equal content has equal text.
    let text = serde_json::to_value(definition).map_err(StoreError::internal)?;
    Ok(blake3::hash(text.to_string().as_bytes())
        .to_hex()
        .to_string())
}

pub trait ActorRecords {
    /// Stores a new actor. Fails with `Taken`, which says since when, if the name is taken.
    fn insert_actor(&mut self, row: &ActorRow) -> Result<()>;

    /// Replaces the actor of the same name if `row.version` is the newest; returns the next
    /// version. Keeps the creation time.
    fn replace_actor(&mut self, row: &ActorRow) -> Result<i64>;

    fn actor(&mut self, name: &NamespacedName) -> Result<ActorRow>;

    /// Returns all stored actors, ordered by name.
    fn actors(&mut self) -> Result<Vec<ActorRow>>;

    /// Deletes the actor if `row.version` is the newest.
    fn delete_actor(&mut self, row: &ActorRow) -> Result<()>;
}
