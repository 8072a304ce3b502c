//! What an actor knew when it decided: stored whole and named by its hash, so that the decision
//! can be made again from exactly the same.

use std::sync::Arc;

use cleveragents_domain::{ContextSnapshot, Decision};
use serde::{Deserialize, Serialize};

use super::error::{DecisionFailure, Result};
use crate::ports::{BlobHash, StagedBlob, StoreError, StoreHandle, Transaction};

/// What an actor knew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionContext {
    pub items: Vec<ContextItem>,
    /// The resources the context was taken from.
    pub resources: Vec<String>,
    /// The actor's own state, in a form only it can read.
    pub actor_state: Option<Vec<u8>>,
}

/// A piece of the context: a file, a message, a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItem {
    pub name: String,
    pub text: String,
}

/// What became of a stored context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredContext {
    /// Nothing was stored with the decision.
    None,
    /// It was stored, but nobody keeps it any longer.
    Released,
    /// Exactly the text that was stored, whose hash was checked, and what it says.
    Kept {
        text: String,
        items: Vec<ContextItem>,
    },
}

/// The stored form. Fields are written in this order and without white space, so that the same
/// context has the same bytes and the same hash everywhere.
#[derive(Serialize, Deserialize)]
struct ContextBody {
    items: Vec<ContextItem>,
    resources: Vec<String>,
}

/// A context that is durable enough to be named by a decision.
#[derive(Debug, Clone)]
pub(super) struct StagedContext {
    blobs: Arc<[StagedBlob]>,
    pub(super) snapshot: ContextSnapshot,
}

impl StagedContext {
    pub(super) async fn stage(store: &StoreHandle, context: DecisionContext) -> Result<Self> {
        let mut snapshot = ContextSnapshot::default();
        let mut blobs = Vec::new();
        // Who knew nothing stores nothing: all such decisions would wait for one blob's row.
        if !context.items.is_empty() || !context.resources.is_empty() {
            let body = ContextBody {
                items: context.items,
                resources: context.resources,
            };
            let bytes = serde_json::to_vec(&body).map_err(StoreError::internal)?;
            let blob = store.stage_blob(bytes).await?;
            snapshot.hash = blob.hash.to_string();
            snapshot.context_ref = Some(blob.hash.to_string());
            snapshot.resources = body.resources;
            blobs.push(blob);
        }
        if let Some(state) = context.actor_state {
            let blob = store.stage_blob(state).await?;
            snapshot.actor_state_ref = Some(blob.hash.to_string());
            blobs.push(blob);
        }
        // One order for all, so that two who keep the same blobs cannot wait in a circle.
        blobs.sort_by(|one, other| one.hash.cmp(&other.hash));
        Ok(Self {
            blobs: blobs.into(),
            snapshot,
        })
    }

    /// Keeps the blobs as long as `holder` is there; after its plan and before its stream are held.
    pub(super) fn keep(&self, tx: &mut dyn Transaction, holder: &str) -> Result<()> {
        for blob in self.blobs.iter() {
            tx.put_blob(blob, holder)?;
        }
        Ok(())
    }
}

/// The context of a decision, whose content must still have the hash it was stored under.
pub(super) fn load_context(tx: &mut dyn Transaction, decision: &Decision) -> Result<StoredContext> {
    let snapshot = &decision.context_snapshot;
    let Some(reference) = &snapshot.context_ref else {
        return Ok(StoredContext::None);
    };
    let damaged = |reason: String| DecisionFailure::ContextDamaged {
        decision: decision.decision_id,
        reason,
    };
    let hash: BlobHash = reference
        .parse()
        .map_err(|error: StoreError| damaged(error.to_string()))?;
    let bytes = match tx.blob(&hash) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(StoredContext::Released),
        Err(StoreError::Corrupt { path, reason }) => {
            return Err(damaged(format!("{}: {reason}", path.display())));
        }
        Err(other) => return Err(other.into()),
    };
    let found = BlobHash::of(&bytes);
    if found.as_str() != snapshot.hash {
        return Err(damaged(format!(
            "its hash is {found}, not {}",
            snapshot.hash
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
    let body: ContextBody =
        serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    Ok(StoredContext::Kept {
        text,
        items: body.items,
    })
}
