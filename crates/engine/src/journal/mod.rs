//! Reading and keeping the journal: [`tail`] follows it, [`mod@verify`] proves its chain, [`mod@purge`]
//! erases payloads on the record.

pub mod purge;
pub mod tail;
pub mod verify;

use cleveragents_domain::{EventKind, NewEvent};
use serde::Serialize;

use crate::ports::{Result, StoreError};

pub use purge::purge;
pub use tail::Tail;
pub use verify::{ChainFault, Verification, verify};

/// An event by `actor` with `payload`, to be appended in the transaction that does what it tells.
pub(crate) fn event(kind: EventKind, actor: &str, payload: &impl Serialize) -> Result<NewEvent> {
    NewEvent::new(kind, actor, payload).map_err(StoreError::internal)
}
