//! Claims runs, and takes over from owners that died on this machine.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::event::payloads::RunClaimed;
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Phase, StreamId, Timestamp};

use super::RunLease;
use crate::journal::new_event;
use cleveragents_ports::{
    Claim, Holder, Ids, Lease, Liveness, OwnerStatus, Result, RunClaimOutcome, Slots, StoreError,
    StoreHandle, StoreOperation, Transaction,
};

/// Lifetime of a lease without a heartbeat.
pub const LEASE: Duration = Duration::from_secs(10);
/// Interval at which a live owner extends its lease.
pub const HEARTBEAT: Duration = Duration::from_secs(3);

/// Claims runs for this process.
#[derive(Debug, Clone)]
pub struct RunService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    liveness: Arc<dyn Liveness>,
    owner: OwnerId,
}

#[derive(Debug)]
pub enum ClaimOutcome {
    Won(RunLease),
    Held(Holder),
    NoSlot { running: Vec<Holder> },
}

/// State of a run's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerActivity {
    Working,
    /// Its lease has expired but its process is alive: it hangs, is suspended, or a clock is wrong.
    Silent,
    Gone,
}

impl RunService {
    pub fn new(
        store: StoreHandle,
        ids: Arc<dyn Ids>,
        liveness: Arc<dyn Liveness>,
        owner: OwnerId,
    ) -> Self {
        Self {
            store,
            ids,
            liveness,
            owner,
        }
    }

    /// The owner id of this process.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Claims the plan's run. Does not wait for leases of owners proven dead on this machine: the
    /// claim is repeated against exactly those owners and epochs, so of several claimants one wins.
    pub async fn claim(&self, plan: PlanId, phase: Phase, slots: Slots) -> Result<ClaimOutcome> {
        let mut claim = Claim {
            plan,
            phase,
            owner: self.owner,
            node: self.liveness.node().to_owned(),
            lease: LEASE,
            slots,
            dead_owners: Vec::new(),
        };
        // Owners of unknown liveness; for these only the lease decides.
        let mut lapsed: Vec<(OwnerId, i64)> = Vec::new();
        loop {
            // Before the claim: once this process owns a run, its death must be provable.
            self.liveness.keep_lock_file();
            let claimed = self.try_claim(claim.clone(), lapsed.clone()).await?;
            let holders: &[Holder] = match &claimed {
                RunClaimOutcome::Won(_) => &[],
                RunClaimOutcome::Held(holder) => std::slice::from_ref(holder),
                RunClaimOutcome::NoSlot { running } => running,
            };
            let known = claim.dead_owners.len() + lapsed.len();
            for holder in holders {
                let found = (holder.owner, holder.epoch);
                let list = match self.owner_verdict(holder) {
                    OwnerStatus::Alive => continue,
                    OwnerStatus::Dead => &mut claim.dead_owners,
                    OwnerStatus::Unknown => &mut lapsed,
                };
                if !list.contains(&found) {
                    list.push(found);
                }
            }
            if claim.dead_owners.len() + lapsed.len() == known {
                return Ok(self.claim_outcome(claimed));
            }
        }
    }

    fn claim_outcome(&self, claimed: RunClaimOutcome) -> ClaimOutcome {
        match claimed {
            RunClaimOutcome::Won(lease) => ClaimOutcome::Won(RunLease::new(
                self.store.clone(),
                Arc::clone(&self.ids),
                lease,
            )),
            RunClaimOutcome::Held(holder) => ClaimOutcome::Held(holder),
            RunClaimOutcome::NoSlot { running } => ClaimOutcome::NoSlot { running },
        }
    }

    /// Returns the runs whose lease has expired, or whose owner is proven dead, and that were not
    /// taken over.
    pub async fn stale(&self) -> Result<Vec<Holder>> {
        let (now, runs) = self
            .store
            .read(|tx| Ok::<_, StoreError>((tx.now()?, tx.runs()?)))
            .await?;
        Ok(runs
            .into_iter()
            .filter(|run| !self.may_be_running(run, now))
            .collect())
    }

    /// Whether all of these still hold their runs and may be alive.
    pub async fn are_all_running(&self, holders: &[Holder]) -> Result<bool> {
        let (now, runs) = self
            .store
            .read(|tx| Ok::<_, StoreError>((tx.now()?, tx.runs()?)))
            .await?;
        let runs_on = |holder: &Holder| {
            let same = |run: &&Holder| (run.plan, run.epoch) == (holder.plan, holder.epoch);
            runs.iter()
                .find(same)
                .is_some_and(|run| self.may_be_running(run, now))
        };
        Ok(holders.iter().all(runs_on))
    }

    /// Returns the status of the process that owns a run.
    fn owner_verdict(&self, run: &Holder) -> OwnerStatus {
        self.liveness.owner_status_on(run.owner, &run.node)
    }

    /// Returns the process id of the owner of a run, if it is alive on this node.
    pub fn process_id(&self, run: &Holder) -> Option<u32> {
        self.liveness.process_id_on(run.owner, &run.node)
    }

    /// Returns whether the owner of a run is at work. The state of its process decides if known,
    /// else its lease. For this process's own runs the lease decides.
    pub fn activity(&self, run: &Holder, now: Timestamp) -> OwnerActivity {
        match self.owner_verdict(run) {
            OwnerStatus::Dead => OwnerActivity::Gone,
            _ if run.expires_at > now => OwnerActivity::Working,
            OwnerStatus::Alive if run.owner != self.owner => OwnerActivity::Silent,
            OwnerStatus::Alive | OwnerStatus::Unknown => OwnerActivity::Gone,
        }
    }

    fn may_be_running(&self, run: &Holder, now: Timestamp) -> bool {
        self.activity(run, now) != OwnerActivity::Gone
    }

    /// Claims the run. If its holder is another process of this node whose liveness the caller has
    /// not checked yet, returns `Held` with that holder instead, even if the lease has expired.
    async fn try_claim(
        &self,
        claim: Claim,
        lapsed: Vec<(OwnerId, i64)>,
    ) -> Result<RunClaimOutcome> {
        self.store
            .write(StoreOperation::new(&*self.ids, "run.claim"), move |tx| {
                if let Some(holder) = tx.run_for_update(claim.plan)? {
                    let found = (holder.owner, holder.epoch);
                    let is_judged = claim.dead_owners.contains(&found) || lapsed.contains(&found);
                    let is_neighbour = holder.node == claim.node && holder.owner != claim.owner;
                    if is_neighbour && !is_judged {
                        return Ok(RunClaimOutcome::Held(holder));
                    }
                }
                let claimed = tx.claim_run(&claim)?;
                if let RunClaimOutcome::Won(lease) = &claimed {
                    record_claim(tx, &claim, lease)?;
                }
                Ok::<_, StoreError>(claimed)
            })
            .await
    }
}

fn record_claim(tx: &mut dyn Transaction, claim: &Claim, lease: &Lease) -> Result<()> {
    let record = RunClaimed {
        phase: claim.phase,
        epoch: lease.epoch,
        owner: claim.owner,
        node: claim.node.clone(),
        dead: claim.dead_owners.iter().map(|(owner, _)| *owner).collect(),
    };
    let event = new_event(&claim.owner.to_string(), &record)?;
    tx.append(StreamId::Plan(claim.plan), &[event])?;
    Ok(())
}
