//! Whether another process of this machine is still alive.

use std::fmt::Debug;

use cleveragents_domain::id::OwnerId;

/// What can be said of an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Alive,
    /// Proven dead: it held an OS lock that is free now, and owners never come back.
    Dead,
    /// Nothing can be proven; only its lease decides.
    Unknown,
}

pub trait Liveness: Send + Sync + Debug {
    /// The name of this node; owners of other nodes are always `Unknown`.
    fn node(&self) -> &str;

    fn verdict(&self, owner: OwnerId) -> Verdict;
}
