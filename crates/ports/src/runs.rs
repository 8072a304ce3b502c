//! Runs: which process owns a running plan. A claim is a conditional write that returns the winner
//! (law 3). Every later write of the owner carries the claim's epoch (law 5). Other processes send
//! messages to the owner.

use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{MessageKind, Phase, PlanMessage, Timestamp};
use serde::{Deserialize, Serialize};

use super::Result;

/// Maximum number of runs of this claim's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// At most this many at once, including this one.
    Limit(u32),
    /// A child plan runs within its parent's slot.
    Shared,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub plan: PlanId,
    pub phase: Phase,
    pub owner: OwnerId,
    pub node: String,
    pub lease: Duration,
    pub slots: Slots,
    /// Owners and epochs proven dead; the claim does not wait for their leases to expire.
    pub dead_owners: Vec<(OwnerId, i64)>,
}

/// The right to move a plan, until another owner gets a higher epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub plan: PlanId,
    pub owner: OwnerId,
    pub epoch: i64,
    pub expires_at: Timestamp,
}

/// The holder of a plan's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub plan: PlanId,
    pub phase: Phase,
    pub owner: OwnerId,
    pub node: String,
    pub epoch: i64,
    pub claimed_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunClaimOutcome {
    Won(Lease),
    Held(Holder),
    /// All slots of this node are taken by these runs.
    NoSlot {
        running: Vec<Holder>,
    },
}

pub trait Runs {
    /// Claims the plan's run if it is free, expired or its owner is proven dead. A live run of the
    /// same owner counts as held too. Each successful claim gets an epoch higher than any before.
    fn claim_run(&mut self, claim: &Claim) -> Result<RunClaimOutcome>;

    /// Extends the lease. Fails with `LeaseLost` if there is a newer epoch.
    fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Lease>;

    /// Releases the run. Fails with `LeaseLost` if it is no longer held.
    fn release_run(&mut self, lease: &Lease) -> Result<()>;

    /// Fails the whole transaction with `LeaseLost` unless the lease's epoch is the newest, and
    /// keeps it the newest until the transaction ends.
    fn fence(&mut self, lease: &Lease) -> Result<()>;

    /// Returns the holder of the plan's run; its lease may be expired. The run can be claimed right
    /// after, so the plan's own moves must check again.
    fn run_of(&mut self, plan: PlanId) -> Result<Option<Holder>>;

    /// Like [`Self::run_of`], and locks the run until the transaction ends: it cannot be claimed,
    /// extended or released. The run must be locked before its plan.
    fn run_for_update(&mut self, plan: PlanId) -> Result<Option<Holder>>;

    /// Ends a run whose owner is not waited for. The epoch rises, so later writes of that owner
    /// fail. Fails with `LeaseLost` if the run has changed.
    fn evict_run(&mut self, holder: &Holder) -> Result<()>;

    /// Returns all runs that have an owner, including expired ones.
    fn runs(&mut self) -> Result<Vec<Holder>>;

    /// Stores a message for the owner of an existing plan and returns its sequence number. Sequence
    /// numbers have no gaps.
    fn send_message(&mut self, message: &PlanMessage) -> Result<i64>;

    /// Takes the plan's pending messages of these kinds, in order. Each message is returned to
    /// exactly one caller.
    fn take_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>>;

    /// Returns the number of pending messages of these kinds.
    fn pending_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<u64>;
}
