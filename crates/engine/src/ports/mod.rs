//! What the engine needs of the world, as small traits in plain domain data.
//!
//! [`store`] runs transactions; a transaction is a [`Unit`], which speaks the verbs of the
//! journal, runs, locks, blobs and the catalogue. Adapters live in other crates and never see
//! each other.

pub mod blobs;
pub mod catalogue;
pub mod clock;
pub mod error;
pub mod journal;
pub mod liveness;
pub mod locks;
pub mod runs;
pub mod store;

pub use blobs::{BlobHash, Blobs, StagedBlob};
pub use catalogue::{Actions, Plans};
pub use clock::{Clock, Ids};
pub use error::{Result, StoreError};
pub use journal::{Cursor, Head, Journal};
pub use liveness::{Liveness, Verdict};
pub use locks::{LockGrant, LockRequest, LockRow, Locks};
pub use runs::{Claim, Claimed, Holder, Lease, Runs, Slots};
pub use store::{Operation, Store, StoreHandle, Unit};
