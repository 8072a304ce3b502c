//! Knowledge about the process that owns a run. The OS lock it holds decides, not a clock.

use cleveragents_domain::id::OwnerId;

use cleveragents_ports::{Holder, Liveness, OwnerStatus};

/// The owner of one run, known to be dead or alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProvenOwner {
    owner: OwnerId,
    epoch: i64,
    pub(crate) state: ProvenState,
    pub(crate) pid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProvenState {
    Alive,
    Dead,
}

impl ProvenOwner {
    /// Returns `None` if only the lease can decide.
    pub(crate) fn probe(holder: &Holder, liveness: &dyn Liveness) -> Option<Self> {
        let state = match liveness.owner_status_on(holder.owner, &holder.node) {
            OwnerStatus::Alive => ProvenState::Alive,
            OwnerStatus::Dead => ProvenState::Dead,
            OwnerStatus::Unknown => return None,
        };
        Some(Self {
            owner: holder.owner,
            epoch: holder.epoch,
            state,
            pid: liveness.process_id_on(holder.owner, &holder.node),
        })
    }

    /// Whether `run` is still the run that was probed.
    pub(crate) fn matches_run(&self, run: &Holder) -> bool {
        (self.owner, self.epoch) == (run.owner, run.epoch)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == ProvenState::Dead
    }
}
