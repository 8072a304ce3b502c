//! Consent to use files that come with a repository.
//!
//! The decision is [`RepositoryFile::trust_state`], a pure function. [`trust_state`] makes it
//! inside the transaction that uses the file; [`TrustRegistry`] reads and records consents for the
//! caller, which asks the user. [`effects`] describes what an action does.

pub mod effects;

use std::sync::Arc;

use cleveragents_domain::event::payloads::RepositoryFileTrusted;
use cleveragents_domain::{
    AbsolutePath, Consent, RepositoryFile, ResourcePath, StreamId, TrustState,
};

use crate::journal::new_event;
use cleveragents_definitions::ActionDraft;
use cleveragents_ports::{Ids, Result, StoreHandle, StoreOperation, Transaction};

/// An action defined in a repository, and the file that defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryAction {
    pub draft: ActionDraft,
    pub file: RepositoryFile,
}

/// Returns the hash that identifies the content of a file.
pub fn content_hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Compares the file with the recorded consents.
pub(crate) fn trust_state(tx: &mut dyn Transaction, file: &RepositoryFile) -> Result<TrustState> {
    let consents = tx.consents_to(&file.repository, &file.path)?;
    Ok(file.trust_state(&consents))
}

/// Returns the hashes of a file's contents that the user consented to.
pub(crate) fn trusted_hashes(
    tx: &mut dyn Transaction,
    repository: &AbsolutePath,
    path: &ResourcePath,
) -> Result<Vec<String>> {
    let consents = tx.consents_to(repository, path)?;
    Ok(consents.into_iter().map(|it| it.file.hash).collect())
}

/// Service for consents. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct TrustRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl TrustRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Returns whether the file may be used with its current content.
    pub async fn state_of(&self, file: RepositoryFile) -> Result<TrustState> {
        self.store.read(move |tx| trust_state(tx, &file)).await
    }

    /// Records the user's consent to this content. Row and event are one commit (law 2). An
    /// existing consent is not recorded again.
    pub async fn record(&self, file: RepositoryFile, actor: &str) -> Result<()> {
        let actor = actor.to_owned();
        self.store
            .write(StoreOperation::new(&*self.ids, "trust.record"), move |tx| {
                let consent = Consent {
                    file: file.clone(),
                    actor: actor.clone(),
                    given_at: tx.now()?,
                };
                if tx.insert_consent(&consent)? {
                    let trusted = RepositoryFileTrusted(file.clone());
                    tx.append(StreamId::System, &[new_event(&actor, &trusted)?])?;
                }
                Ok(())
            })
            .await
    }
}
