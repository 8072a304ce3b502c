//! The journal's events: what happened, in which stream, at which position.
//!
//! Each stream is numbered without gaps and chained by hashes. [`EventKind`] lists the kinds; each
//! has a struct in [`payloads`] of the same name and a version. [`NewEvent::of`] writes a payload,
//! [`Event::read`] and [`Event::read_body`] read it; payloads of older versions are converted on
//! reading by [`upcast`](crate::upcast). [`event_schema`] describes all of them for other programs.

mod chain_fault;
mod kinds;
pub mod payloads;
mod reading;
mod schema;
mod stored;
mod stream;

pub use chain_fault::ChainFault;
pub use kinds::{EventBody, EventKind, EventPayload};
pub use reading::{PayloadError, PayloadOutcome};
pub use schema::event_schema;
pub use stored::{Event, NewEvent};
pub use stream::StreamId;
