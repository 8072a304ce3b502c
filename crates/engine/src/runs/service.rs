//! Claiming, and taking over from an owner that died on this machine.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{EventKind, NewEvent, Phase, StreamId, Timestamp};
use serde::Serialize;

use super::RunLease;
use crate::ports::{
    Claim, Holder, Ids, Lease, Liveness, OwnerStatus, Result, RunClaimOutcome, Slots, StoreError,
    StoreHandle, StoreOperation, Transaction,
};

/// How long a claim lasts without a heartbeat.
pub const LEASE: Duration = Duration::from_secs(10);
/// How often a live owner moves its lease's end.
pub const HEARTBEAT: Duration = Duration::from_secs(3);

/// Runs owned by this process.
#[derive(Debug, Clone)]
pub struct RunService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    liveness: Arc<dyn Liveness>,
    owner: OwnerId,
}

/// What came of asking for a run.
#[derive(Debug)]
pub enum ClaimOutcome {
    Won(RunLease),
    Held(Holder),
    NoSlot { running: Vec<Holder> },
}

/// What the owner of a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerActivity {
    Working,
    /// Its lease has ended and its process is alive: it hangs, is stopped, or a clock is wrong.
    Silent,
    Gone,
}

#[derive(Serialize)]
struct RunRecord<'a> {
    phase: Phase,
    epoch: i64,
    owner: OwnerId,
    node: &'a str,
    /// Owners proven dead that were not waited for.
    dead: Vec<OwnerId>,
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

    /// Who claims.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Claims the plan's run. Owners proven dead on this machine are not waited for: the claim is
    /// repeated against exactly those owners and epochs, so of several who see one dead, one wins.
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
        // Expired leases of owners of this node that are not proven alive.
        let mut lapsed: Vec<(OwnerId, i64)> = Vec::new();
        loop {
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

    /// Runs whose lease has run out, or whose owner is proven dead, and that nobody took over.
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

    /// Whether every one of these still has its run, and may be alive.
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

    /// What is known of the process that owns a run.
    fn owner_verdict(&self, run: &Holder) -> OwnerStatus {
        self.liveness.owner_status_on(run.owner, &run.node)
    }

    /// Whether the owner of a run is at work. What is known of its process decides, else its
    /// lease. This process's own runs end with their leases.
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

    /// Claims the run, unless its lease has expired and nobody looked yet whether its owner, a
    /// process of this node, is alive: then the answer names that owner.
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
    let record = RunRecord {
        phase: claim.phase,
        epoch: lease.epoch,
        owner: claim.owner,
        node: &claim.node,
        dead: claim.dead_owners.iter().map(|(owner, _)| *owner).collect(),
    };
    let event = NewEvent::new(EventKind::RunClaimed, claim.owner.to_string(), &record)
        .map_err(StoreError::internal)?;
    tx.append(StreamId::Plan(claim.plan), &[event])?;
    Ok(())
}
