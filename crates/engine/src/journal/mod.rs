//! Reading and keeping the journal: [`tail`] follows it, [`mod@verify`] proves its chain, [`mod@purge`]
//! erases payloads on the record.

pub mod purge;
pub mod tail;
pub mod verify;

pub use purge::purge;
pub use tail::Tail;
pub use verify::{ChainFault, Verification, verify};
