//! Runs: which process owns a running plan. A claim is a conditional write that says who won
//! (law 3); every later write of the owner carries the claim's epoch (law 5).

use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Phase, Timestamp};
use serde::{Deserialize, Serialize};

use super::Result;

/// How many runs this claim's node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// At most this many at once, this one included.
    Limit(u32),
    /// A child plan: it runs within its parent's slot.
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
    /// Owners and epochs proven dead: their leases need not run out first.
    pub dead_owners: Vec<(OwnerId, i64)>,
}

/// The right to move a plan, until somebody else's epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub plan: PlanId,
    pub owner: OwnerId,
    pub epoch: i64,
    pub expires_at: Timestamp,
}

/// Who has a plan's run.
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
    /// All slots of this node are taken, by these.
    NoSlot {
        running: Vec<Holder>,
    },
}

pub trait Runs {
    /// Takes the plan's run if it is free, expired or its owner proven dead; one's own live run is
    /// held like any other's. Each claim that wins gets an epoch higher than any before.
    fn claim_run(&mut self, claim: &Claim) -> Result<RunClaimOutcome>;

    /// Moves the lease's end; `LeaseLost` if another epoch has come.
    fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Lease>;

    /// Gives the run back. Giving back what is no longer held is `LeaseLost`.
    fn release_run(&mut self, lease: &Lease) -> Result<()>;

    /// Refuses the whole transaction with `LeaseLost` unless the lease's epoch is the newest, and
    /// keeps it the newest until the transaction ends.
    fn fence(&mut self, lease: &Lease) -> Result<()>;

    /// Who has the plan's run, its lease perhaps expired. Somebody may claim it right after; what
    /// follows from the answer is checked again by the plan's own moves.
    fn run_of(&mut self, plan: PlanId) -> Result<Option<Holder>>;

    /// The same, and nobody can claim, extend or give back the run until this write ends. Who
    /// asks for the plan as well asks for its run first.
    fn run_for_update(&mut self, plan: PlanId) -> Result<Option<Holder>>;

    /// Ends a run whose owner is not waited for. The epoch rises: whatever that owner still tries
    /// is refused. A run that is no longer this one is `LeaseLost`.
    fn evict_run(&mut self, holder: &Holder) -> Result<()>;

    /// All runs that have an owner, expired ones included.
    fn runs(&mut self) -> Result<Vec<Holder>>;
}
