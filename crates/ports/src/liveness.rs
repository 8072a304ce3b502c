//! Whether another process of this machine is still alive.

use std::fmt::Debug;

use cleveragents_domain::id::OwnerId;

/// The observed state of an owner's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerStatus {
    Alive,
    /// Proven dead: it held an OS lock that is free now, and owner ids are never reused.
    Dead,
    /// Nothing can be proven; only its lease decides.
    Unknown,
}

pub trait Liveness: Send + Sync + Debug {
    /// The name of this node. Owners of other nodes are always `Unknown`.
    fn node(&self) -> &str;

    /// Returns the status of an owner of this node.
    fn owner_status(&self, owner: OwnerId) -> OwnerStatus;

    /// Returns the process id of a live owner of this node, if it recorded one.
    fn process_id(&self, owner: OwnerId) -> Option<u32>;

    /// Called when this process owns something: keeps its lock file after exit or a crash, so that
    /// its death can be proven.
    fn keep_lock_file(&self);
}

impl dyn Liveness + '_ {
    /// Whether `owner`, on `node`, is proven dead. Owners of other nodes never are.
    pub fn is_dead(&self, owner: OwnerId, node: &str) -> bool {
        self.owner_status_on(owner, node) == OwnerStatus::Dead
    }

    /// Returns the status of `owner` on `node`. A live owner keeps its lease, even if a clock says
    /// it has expired.
    pub fn owner_status_on(&self, owner: OwnerId, node: &str) -> OwnerStatus {
        if node == self.node() {
            self.owner_status(owner)
        } else {
            OwnerStatus::Unknown
        }
    }

    /// The process id of `owner`, who said to be of `node`. Of other nodes nothing is known.
    pub fn process_id_on(&self, owner: OwnerId, node: &str) -> Option<u32> {
        (node == self.node()).then(|| self.process_id(owner))?
    }
}
