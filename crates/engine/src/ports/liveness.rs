//! Whether another process of this machine is still alive.

use std::fmt::Debug;

use cleveragents_domain::id::OwnerId;

/// What can be said of an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerStatus {
    Alive,
    /// Proven dead: it held an OS lock that is free now, and owners never come back.
    Dead,
    /// Nothing can be proven; only its lease decides.
    Unknown,
}

pub trait Liveness: Send + Sync + Debug {
    /// The name of this node; owners of other nodes are always `Unknown`.
    fn node(&self) -> &str;

    /// What is known of an owner of this node.
    fn owner_status(&self, owner: OwnerId) -> OwnerStatus;

    /// This process now owns something: when it ends, however it ends, its death stays provable.
    fn keep_lock_file(&self);
}

impl dyn Liveness + '_ {
    /// Whether `owner`, who said to be of `node`, is proven dead. Of other nodes nothing is known.
    pub fn is_dead(&self, owner: OwnerId, node: &str) -> bool {
        self.owner_status_on(owner, node) == OwnerStatus::Dead
    }

    /// What is known of `owner`, who said to be of `node`. One that is alive keeps its lease,
    /// whatever a clock says.
    pub fn owner_status_on(&self, owner: OwnerId, node: &str) -> OwnerStatus {
        if node == self.node() {
            self.owner_status(owner)
        } else {
            OwnerStatus::Unknown
        }
    }
}
