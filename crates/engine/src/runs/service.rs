//! Claiming, and taking over from an owner that died on this machine.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{EventKind, NewEvent, Phase, StreamId, Timestamp};
use serde::Serialize;

use super::RunLease;
use crate::ports::{
    Claim, Claimed, Holder, Ids, Lease, Liveness, Operation, Result, Slots, StoreError,
    StoreHandle, Unit, Verdict,
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
pub enum Outcome {
    Won(RunLease),
    Held(Holder),
    NoSlot { running: Vec<Holder> },
}

/// What the owner of a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
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
    pub async fn claim(&self, plan: PlanId, phase: Phase, slots: Slots) -> Result<Outcome> {
        let mut claim = Claim {
            plan,
            phase,
            owner: self.owner,
            node: self.liveness.node().to_owned(),
            lease: LEASE,
            slots,
            dead: Vec::new(),
        };
        // Expired leases of owners of this node that are not proven alive.
        let mut lapsed: Vec<(OwnerId, i64)> = Vec::new();
        loop {
            self.liveness.keep_proof();
            let claimed = self.attempt(claim.clone(), lapsed.clone()).await?;
            let in_the_way: &[Holder] = match &claimed {
                Claimed::Won(_) => &[],
                Claimed::Held(holder) => std::slice::from_ref(holder),
                Claimed::NoSlot { running } => running,
            };
            let known = claim.dead.len() + lapsed.len();
            for holder in in_the_way {
                let found = (holder.owner, holder.epoch);
                let list = match self.verdict_on(holder) {
                    Verdict::Alive => continue,
                    Verdict::Dead => &mut claim.dead,
                    Verdict::Unknown => &mut lapsed,
                };
                if !list.contains(&found) {
                    list.push(found);
                }
            }
            if claim.dead.len() + lapsed.len() == known {
                return Ok(self.outcome(claimed));
            }
        }
    }

    fn outcome(&self, claimed: Claimed) -> Outcome {
        match claimed {
            Claimed::Won(lease) => Outcome::Won(RunLease::new(
                self.store.clone(),
                Arc::clone(&self.ids),
                lease,
            )),
            Claimed::Held(holder) => Outcome::Held(holder),
            Claimed::NoSlot { running } => Outcome::NoSlot { running },
        }
    }

    /// Runs whose lease has run out, or whose owner is proven dead, and that nobody took over.
    pub async fn stale(&self) -> Result<Vec<Holder>> {
        let (now, runs) = self
            .store
            .read(|unit| Ok::<_, StoreError>((unit.now()?, unit.runs()?)))
            .await?;
        Ok(runs
            .into_iter()
            .filter(|run| !self.may_run(run, now))
            .collect())
    }

    /// Whether every one of these still has its run, and may be alive.
    pub async fn all_run(&self, holders: &[Holder]) -> Result<bool> {
        let (now, runs) = self
            .store
            .read(|unit| Ok::<_, StoreError>((unit.now()?, unit.runs()?)))
            .await?;
        let runs_on = |holder: &Holder| {
            let same = |run: &&Holder| (run.plan, run.epoch) == (holder.plan, holder.epoch);
            runs.iter()
                .find(same)
                .is_some_and(|run| self.may_run(run, now))
        };
        Ok(holders.iter().all(runs_on))
    }

    /// What is known of the process that owns a run.
    fn verdict_on(&self, run: &Holder) -> Verdict {
        self.liveness.known(run.owner, &run.node)
    }

    /// Whether the owner of a run is at work. What is known of its process decides, else its
    /// lease. This process's own runs end with their leases.
    pub fn activity(&self, run: &Holder, now: Timestamp) -> Activity {
        match self.verdict_on(run) {
            Verdict::Dead => Activity::Gone,
            _ if run.expires_at > now => Activity::Working,
            Verdict::Alive if run.owner != self.owner => Activity::Silent,
            Verdict::Alive | Verdict::Unknown => Activity::Gone,
        }
    }

    fn may_run(&self, run: &Holder, now: Timestamp) -> bool {
        self.activity(run, now) != Activity::Gone
    }

    /// Claims the run, unless its lease has expired and nobody looked yet whether its owner, a
    /// process of this node, is alive: then the answer names that owner.
    async fn attempt(&self, claim: Claim, lapsed: Vec<(OwnerId, i64)>) -> Result<Claimed> {
        self.store
            .write(Operation::new(&*self.ids, "run.claim"), move |unit| {
                if let Some(holder) = unit.hold_run(claim.plan)? {
                    let found = (holder.owner, holder.epoch);
                    let is_judged = claim.dead.contains(&found) || lapsed.contains(&found);
                    let is_neighbour = holder.node == claim.node && holder.owner != claim.owner;
                    if is_neighbour && !is_judged {
                        return Ok(Claimed::Held(holder));
                    }
                }
                let claimed = unit.claim_run(&claim)?;
                if let Claimed::Won(lease) = &claimed {
                    record_claim(unit, &claim, lease)?;
                }
                Ok::<_, StoreError>(claimed)
            })
            .await
    }
}

fn record_claim(unit: &mut dyn Unit, claim: &Claim, lease: &Lease) -> Result<()> {
    let record = RunRecord {
        phase: claim.phase,
        epoch: lease.epoch,
        owner: claim.owner,
        node: &claim.node,
        dead: claim.dead.iter().map(|(owner, _)| *owner).collect(),
    };
    let event = NewEvent::new(EventKind::RunClaimed, claim.owner.to_string(), &record)
        .map_err(StoreError::internal)?;
    unit.append(StreamId::Plan(claim.plan), &[event])?;
    Ok(())
}
