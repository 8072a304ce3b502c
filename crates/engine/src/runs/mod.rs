//! Running plans: [`RunService`] claims a plan for this process and takes over from the dead;
//! a [`RunLease`] is the right to move it, and the only way an owner writes.

mod lease;
mod service;

pub use lease::{FencedWriter, KeepAlive, ReleaseOutcome, RunLease};
pub use service::{ClaimOutcome, HEARTBEAT, LEASE, OwnerActivity, RunService};
