//! Erases payloads and records it. The hash chain stays valid.

use cleveragents_domain::event::payloads::PayloadPurged;
use cleveragents_domain::{EventKind, StreamId};

use super::new_event;
use cleveragents_ports::{
    Entity, Result, StoreError, StoreHandle, StoreOperation, StreamHead, Transaction,
};

/// The payloads to erase, with actor and reason.
#[derive(Debug, Clone)]
pub struct PurgeRequest {
    pub stream: StreamId,
    pub places: Vec<i64>,
    pub reason: String,
    pub actor: String,
}

/// Erases payloads and records it, in one transaction (law 2). Fails, and erases nothing, if a
/// sequence number does not exist or belongs to an earlier purge.
pub async fn purge(
    store: &StoreHandle,
    operation: StoreOperation,
    request: PurgeRequest,
) -> Result<StreamHead> {
    store
        .write(operation, move |tx| {
            let PurgeRequest { stream, .. } = request;
            for &place in &request.places {
                let found = tx.events(stream, place.saturating_sub(1), 1)?;
                let erasable = found.first().is_some_and(|event| {
                    event.stream_seq == place && event.kind != EventKind::PayloadPurged
                });
                if !erasable {
                    return Err(StoreError::NotFound {
                        entity: Entity::ErasableEvent,
                        id: format!("{stream}/{place}"),
                    });
                }
            }
            erase(tx, &request)
        })
        .await
}

/// Erases payloads inside a transaction. The caller must have checked that they can be erased.
pub(crate) fn erase(tx: &mut dyn Transaction, request: &PurgeRequest) -> Result<StreamHead> {
    tx.erase_payloads(request.stream, &request.places)?;
    let record = PayloadPurged {
        places: request.places.clone(),
        reason: request.reason.clone(),
    };
    tx.append(request.stream, &[new_event(&request.actor, &record)?])
}
