//! The context of a decision: what the actor knew. It is stored in full and named by its hash, so
//! that the decision can be repeated from the same input.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::{ContextSnapshot, Decision};
use serde::{Deserialize, Serialize};

use super::error::{DecisionFailure, Result};
use crate::execution::request_items;
use cleveragents_ports::{BlobHash, StagedBlob, StoreError, StoreHandle, Transaction};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionContext {
    pub items: Vec<ContextItem>,
    /// The resources the context was taken from.
    pub resources: Vec<String>,
    /// The actor's own state, opaque to us.
    pub actor_state: Option<Vec<u8>>,
    /// The stored model request that `items` were read from. They are then read from it again, not
    /// stored a second time.
    pub request: Option<String>,
}

impl DecisionContext {
    /// Returns the context of a decision by a model: the newest request of its conversation.
    pub(crate) fn of_model(
        tx: &mut dyn Transaction,
        plan: PlanId,
        conversation: &ConversationKey,
        resources: &[String],
    ) -> cleveragents_ports::Result<Self> {
        let Some(call) = tx.newest_model_call(plan, conversation)? else {
            return Ok(Self::default());
        };
        let items = request_items(tx, &call.call.request)?;
        Ok(Self {
            resources: resources.to_vec(),
            actor_state: None,
            request: items.is_some().then_some(call.call.request),
            items: items.unwrap_or_default(),
        })
    }
}

/// A piece of the context: a file, a message, a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItem {
    pub name: String,
    pub text: String,
}

/// State of a stored context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredContext {
    /// Nothing was stored with the decision.
    None,
    /// It was stored, but has been released since.
    Released,
    /// The stored text, with its hash verified, and its parsed content.
    Kept {
        text: String,
        items: Vec<ContextItem>,
    },
}

/// The stored form. Fields are written in this order and without white space, so that equal
/// contexts have equal bytes and hashes everywhere.
#[derive(Serialize, Deserialize)]
struct ContextBody {
    items: Vec<ContextItem>,
    resources: Vec<String>,
}

/// The stored form of a context that is a model request.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestReference {
    request: String,
    resources: Vec<String>,
}

/// A context whose blobs are staged, so that a decision can refer to them.
#[derive(Debug, Clone)]
pub(super) struct StagedContext {
    blobs: Arc<[StagedBlob]>,
    pub(super) snapshot: ContextSnapshot,
}

impl StagedContext {
    pub(super) async fn stage(store: &StoreHandle, context: DecisionContext) -> Result<Self> {
        let mut snapshot = ContextSnapshot::default();
        let mut blobs = Vec::new();
        // Do not store an empty context: all such decisions would contend for one blob's row.
        if !context.items.is_empty() || !context.resources.is_empty() {
            let body = ContextBody {
                items: context.items,
                resources: context.resources,
            };
            let whole = serde_json::to_vec(&body).map_err(StoreError::internal)?;
            snapshot.hash = BlobHash::of(&whole).to_string();
            snapshot.resources.clone_from(&body.resources);
            let bytes = match context.request {
                None => whole,
                // The messages are stored with the request, each once.
                Some(request) => {
                    let resources = body.resources;
                    let reference = RequestReference { request, resources };
                    serde_json::to_vec(&reference).map_err(StoreError::internal)?
                }
            };
            let blob = store.stage_blob(bytes).await?;
            snapshot.context_ref = Some(blob.hash.to_string());
            blobs.push(blob);
        }
        if let Some(state) = context.actor_state {
            let blob = store.stage_blob(state).await?;
            snapshot.actor_state_ref = Some(blob.hash.to_string());
            blobs.push(blob);
        }
        // All callers lock in the same order, so two that keep the same blobs cannot deadlock.
        blobs.sort_by(|one, other| one.hash.cmp(&other.hash));
        Ok(Self {
            blobs: blobs.into(),
            snapshot,
        })
    }

    /// References the blobs for `holder`. Lock order: after the plan and before its stream.
    pub(super) fn keep(&self, tx: &mut dyn Transaction, holder: &str) -> Result<()> {
        for blob in self.blobs.iter() {
            tx.put_blob(blob, holder)?;
        }
        Ok(())
    }
}

/// Loads the context of a decision. Fails if its content does not match its hash.
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
    let bytes = match serde_json::from_slice::<RequestReference>(&bytes) {
        Err(_) => bytes,
        Ok(reference) => {
            let Some(items) = request_items(tx, &reference.request)? else {
                return Ok(StoredContext::Released);
            };
            let resources = reference.resources;
            let body = ContextBody { items, resources };
            serde_json::to_vec(&body).map_err(StoreError::internal)?
        }
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
