//! The sandboxes of all plans: their records, their folders, and the removal of those no longer
//! needed.
//!
//! A removal is recorded as an intent, done and confirmed (law 9): after a crash the next gc
//! continues it. The decision is made in the transaction that locks the plan's run, so no process
//! can start to work in a sandbox that is about to be removed.

mod classify;
mod gc;

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::id::{IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{NamespacedName, Plan};
use tokio::task::{JoinError, spawn_blocking};

use crate::lifecycle::{LifecycleError, PlanLifecycle};
use cleveragents_ports::sandbox::{SandboxError, Sandboxes};
use cleveragents_ports::{Ids, Liveness, StoreError, StoreHandle, StoreOperation};

pub use gc::{GcMode, GcRequest, GcVerdict, SweptSandbox};

/// Time that a folder without a record is kept.
pub const UNKNOWN_GRACE: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Lists and removes sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    lifecycle: PlanLifecycle,
    sandboxes: Arc<dyn Sandboxes>,
    /// The name of this machine.
    node: String,
}

/// Selects sandboxes; all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxFilter {
    pub states: Vec<SandboxState>,
    pub plan: Option<PlanId>,
}

/// A recorded sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxListEntry {
    pub record: SandboxRecord,
    pub on_disk: SandboxFolderPresence,
}

/// Whether the folder of a sandbox exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxFolderPresence {
    Present,
    Absent,
    /// The sandbox belongs to another machine.
    OnOtherNode,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SandboxOverview {
    /// Recorded ones, newest first.
    pub known: Vec<SandboxListEntry>,
    /// Folders without a record.
    pub unknown: Vec<SandboxId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SandboxWithPlan {
    pub sandbox: SandboxListEntry,
    pub plan: Plan,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxServiceError {
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the work ended unexpectedly: {reason}")]
    TaskFailed { reason: String },
}

impl From<StoreError> for SandboxServiceError {
    fn from(error: StoreError) -> Self {
        Self::Lifecycle(error.into())
    }
}

impl From<JoinError> for SandboxServiceError {
    fn from(error: JoinError) -> Self {
        Self::TaskFailed {
            reason: error.to_string(),
        }
    }
}

pub type Result<T, E = SandboxServiceError> = std::result::Result<T, E>;

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

    /// Returns the recorded sandboxes, each with whether its folder exists.
    pub async fn list(&self, filter: SandboxFilter) -> Result<SandboxOverview> {
        let folders = self.folders().await?;
        let all = self.records().await?;
        let known: BTreeSet<SandboxId> = all.iter().map(|it| it.id).collect();
        let matches_filter = |record: &SandboxRecord| {
            (filter.states.is_empty() || filter.states.contains(&record.state))
                && filter.plan.is_none_or(|plan| plan == record.plan_id)
        };
        let unknown = folders.iter().filter(|id| !known.contains(id));
        Ok(SandboxOverview {
            unknown: unknown.copied().collect(),
            known: all
                .into_iter()
                .filter(matches_filter)
                .map(|record| self.list_entry(record, &folders))
                .collect(),
        })
    }

    /// Returns the sandbox whose id starts or ends with `fragment`.
    pub async fn show(&self, fragment: IdFragment) -> Result<SandboxWithPlan> {
        let folders = self.folders().await?;
        let found = self.store.read(move |tx| {
            let record = tx.find_sandbox(&fragment)?;
            let plan = tx.plan(record.plan_id)?;
            Ok::<_, StoreError>((record, plan))
        });
        let (record, plan) = found.await?;
        let sandbox = self.list_entry(record, &folders);
        Ok(SandboxWithPlan { sandbox, plan })
    }

    async fn records(&self) -> Result<Vec<SandboxRecord>> {
        Ok(self.store.read(|tx| tx.list_sandboxes(&[])).await?)
    }

    /// Returns the existing folders. To compare them with records, read the records later: a record
    /// is always written before its folder.
    async fn folders(&self) -> Result<BTreeSet<SandboxId>> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let found = spawn_blocking(move || sandboxes.list()).await??;
        Ok(found.into_iter().collect())
    }

    fn list_entry(&self, record: SandboxRecord, folders: &BTreeSet<SandboxId>) -> SandboxListEntry {
        let on_disk = match (folders.contains(&record.id), record.other_node(&self.node)) {
            (true, _) => SandboxFolderPresence::Present,
            (false, Some(_)) => SandboxFolderPresence::OnOtherNode,
            (false, None) => SandboxFolderPresence::Absent,
        };
        SandboxListEntry { record, on_disk }
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// Identifies a removed sandbox to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxIdentity {
    pub id: SandboxId,
    pub plan: Option<PlanId>,
    pub resource: Option<NamespacedName>,
}
