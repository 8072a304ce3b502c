//! The sandboxes of all plans: what is on record and on disk of them, and the removal of those
//! that nobody needs any more.
//!
//! A removal is intended, done and confirmed (law 9): whoever is killed in between leaves a record
//! that says so, and the next one goes on. What is removed is decided in the transaction that holds
//! the plan's run, so nobody can begin to work in a sandbox that is about to go.

mod gc;
mod judge;

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::id::{IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{NamespacedName, Plan};
use tokio::task::{JoinError, spawn_blocking};

use crate::lifecycle::{LifecycleError, PlanLifecycle};
use crate::ports::sandbox::{SandboxError, Sandboxes};
use crate::ports::{Ids, Liveness, Operation, StoreError, StoreHandle};

pub use gc::{GcAsk, Mode, Swept, Verdict};

/// How long a folder that nobody knows is left alone.
pub const UNKNOWN_GRACE: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Looks after sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    lifecycle: PlanLifecycle,
    sandboxes: Arc<dyn Sandboxes>,
    /// The name of this machine.
    node: String,
}

/// Which sandboxes are wanted; all if nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub states: Vec<SandboxState>,
    pub plan: Option<PlanId>,
}

/// A sandbox on record.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub record: SandboxRecord,
    pub on_disk: OnDisk,
}

/// Whether there is a folder of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    Present,
    Absent,
    /// It is on another machine, if anywhere.
    Elsewhere,
}

/// The sandboxes there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// On record, newest first.
    pub known: Vec<Known>,
    /// Folders that no record tells of.
    pub unknown: Vec<SandboxId>,
}

/// A sandbox with the plan it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub known: Known,
    pub plan: Plan,
}

/// Why sandboxes could not be looked after.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxesError {
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the work ended unexpectedly: {reason}")]
    Lost { reason: String },
}

impl From<StoreError> for SandboxesError {
    fn from(error: StoreError) -> Self {
        Self::Lifecycle(error.into())
    }
}

impl From<JoinError> for SandboxesError {
    fn from(error: JoinError) -> Self {
        Self::Lost {
            reason: error.to_string(),
        }
    }
}

pub type Result<T, E = SandboxesError> = std::result::Result<T, E>;

impl SandboxService {
    pub fn new(
        store: StoreHandle,
        ids: Arc<dyn Ids>,
        liveness: Arc<dyn Liveness>,
        sandboxes: Arc<dyn Sandboxes>,
    ) -> Self {
        Self {
            node: liveness.node().to_owned(),
            lifecycle: PlanLifecycle::new(store.clone(), Arc::clone(&ids), liveness),
            store,
            ids,
            sandboxes,
        }
    }

    /// What is on record, with what is on disk.
    pub async fn list(&self, wanted: Wanted) -> Result<Overview> {
        let folders = self.folders().await?;
        let all = self.records().await?;
        let known: BTreeSet<SandboxId> = all.iter().map(|it| it.id).collect();
        let is_wanted = |record: &SandboxRecord| {
            (wanted.states.is_empty() || wanted.states.contains(&record.state))
                && wanted.plan.is_none_or(|plan| plan == record.plan_id)
        };
        let unknown = folders.iter().filter(|id| !known.contains(id));
        Ok(Overview {
            unknown: unknown.copied().collect(),
            known: all
                .into_iter()
                .filter(is_wanted)
                .map(|record| self.known_of(record, &folders))
                .collect(),
        })
    }

    /// The one sandbox whose id begins or ends with `fragment`.
    pub async fn show(&self, fragment: IdFragment) -> Result<Shown> {
        let folders = self.folders().await?;
        let found = self.store.read(move |unit| {
            let record = unit.find_sandbox(&fragment)?;
            let plan = unit.plan(record.plan_id)?;
            Ok::<_, StoreError>((record, plan))
        });
        let (record, plan) = found.await?;
        let known = self.known_of(record, &folders);
        Ok(Shown { known, plan })
    }

    async fn records(&self) -> Result<Vec<SandboxRecord>> {
        Ok(self.store.read(|unit| unit.list_sandboxes(&[])).await?)
    }

    /// The folders there are. Whoever compares them with records reads those later: the record of
    /// a sandbox is there before its folder.
    async fn folders(&self) -> Result<BTreeSet<SandboxId>> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let found = spawn_blocking(move || sandboxes.list()).await??;
        Ok(found.into_iter().collect())
    }

    fn known_of(&self, record: SandboxRecord, folders: &BTreeSet<SandboxId>) -> Known {
        let on_disk = match (folders.contains(&record.id), record.elsewhere(&self.node)) {
            (true, _) => OnDisk::Present,
            (false, Some(_)) => OnDisk::Elsewhere,
            (false, None) => OnDisk::Absent,
        };
        Known { record, on_disk }
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// What a removal is about, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    pub id: SandboxId,
    pub plan: Option<PlanId>,
    pub resource: Option<NamespacedName>,
}
