//! Ownership of running plans. [`RunService`] claims a plan for this process and takes over from
//! dead owners. A [`RunLease`] is the right to move a plan, and the only way an owner writes.

mod lease;
mod service;

pub use lease::{FencedWriter, KeepAlive, ReleaseOutcome, RunLease};
pub use service::{ClaimOutcome, HEARTBEAT, LEASE, OwnerActivity, RunService};
