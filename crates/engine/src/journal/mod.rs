//! Reading and maintaining the journal: [`tail`] follows it, [`mod@verify`] checks its hash chain,
//! [`mod@purge`] erases payloads and records it.

pub mod purge;
pub mod tail;
pub mod verify;

use cleveragents_domain::{EventPayload, NewEvent};

use cleveragents_ports::{Result, StoreError};

pub use purge::purge;
pub use tail::Tail;
pub use verify::verify;

/// Builds an event by `actor` with `payload`. It must be appended in the transaction of the change
/// it describes.
pub(crate) fn new_event(actor: &str, payload: &impl EventPayload) -> Result<NewEvent> {
    NewEvent::of(actor, payload).map_err(StoreError::internal)
}
