//! What is known of the process that owns a run: the OS lock it holds decides, not a clock.

use cleveragents_domain::id::OwnerId;

use crate::ports::{Holder, Liveness, Verdict};

/// The owner of one run, known to be dead or alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownOwner {
    owner: OwnerId,
    epoch: i64,
    pub(crate) life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Dead,
}

impl KnownOwner {
    /// Returns nothing if only the lease can decide.
    pub(crate) fn of(holder: &Holder, liveness: &dyn Liveness) -> Option<Self> {
        let life = match liveness.known(holder.owner, &holder.node) {
            Verdict::Alive => Life::Alive,
            Verdict::Dead => Life::Dead,
            Verdict::Unknown => return None,
        };
        Some(Self {
            owner: holder.owner,
            epoch: holder.epoch,
            life,
        })
    }

    /// Whether `run` is still the one that was looked at.
    pub(crate) fn is_of(&self, run: &Holder) -> bool {
        (self.owner, self.epoch) == (run.owner, run.epoch)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life == Life::Dead
    }
}
