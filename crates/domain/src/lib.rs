//! What things are and which moves are legal.
//!
//! Pure values: no I/O, no async, no clock, no randomness, no knowledge of storage or terminals.
//! Start reading at [`lifecycle`] for the moves a plan may make and at [`event`] for what the
//! journal records.

pub mod event;
pub mod id;
pub mod name;
pub mod time;

pub use event::{Event, EventKind, NewEvent, StreamId};
pub use name::NamespacedName;
pub use time::Timestamp;
