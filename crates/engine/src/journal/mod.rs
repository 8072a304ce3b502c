//! Reading and maintaining the journal: [`tail`] follows it, [`mod@verify`] checks its hash chain,
//! [`mod@purge`] erases payloads and records it, [`system`] appends to the stream of the installation.

pub mod purge;
pub mod system;
pub mod tail;
pub mod verify;

use cleveragents_domain::{EventPayload, NewEvent};

use cleveragents_ports::{Result, StoreError};

pub use purge::purge;
pub use system::{RecordOutcome, record_system_event, record_system_event_once};
pub use tail::Tail;
pub use verify::verify;

/// Builds an event by `actor` with `payload`. It must be appended in the transaction of the change
/// it describes.
pub(crate) fn new_event(actor: &str, payload: &impl EventPayload) -> Result<NewEvent> {
    NewEvent::of(actor, payload).map_err(StoreError::internal)
}
