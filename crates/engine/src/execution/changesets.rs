//! The changesets of a plan: started, recorded in through their handles, closed and read.

use std::sync::Arc;

use cleveragents_domain::change::ChangeError;
use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange, RecordedChange};
use cleveragents_domain::event::payloads::{ChangeRecorded, ChangesetClosed, ChangesetStarted};
use cleveragents_domain::id::{ChangesetId, PlanId, SandboxId};
use cleveragents_domain::{ChangeEntry, NewEvent, StreamId};

use crate::journal::new_event;
use cleveragents_ports::{
    Entity, Ids, Lease, Result, StoreError, StoreHandle, StoreOperation, Transaction,
};

/// Number of entries read per page.
const PAGE: u32 = 1000;

/// Records the work of one owner of a plan. Every write is fenced by the lease (law 5). The lease
/// is plain data: an owner may pass it to processes it starts, and all of them are refused once
/// another process owns the plan.
#[derive(Debug, Clone)]
pub struct ExecutionContext {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    lease: Lease,
}

impl ExecutionContext {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>, lease: Lease) -> Self {
        Self { store, ids, lease }
    }

    pub fn plan(&self) -> PlanId {
        self.lease.plan
    }

    /// Returns the lease, which the owner may pass to processes that work for it.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Starts a changeset of one of the plan's sandboxes. Its header is durable when this returns,
    /// so other processes can read it before it has entries.
    pub async fn start_changeset(
        &self,
        sandbox: SandboxId,
        attempt: u32,
        step: Option<u32>,
    ) -> Result<Changeset> {
        let id = ChangesetId::new(self.ids.next());
        let lease = self.lease.clone();
        let operation = StoreOperation::new(&*self.ids, "changeset.start");
        self.store
            .write(operation, move |tx| {
                tx.fence(&lease)?;
                let started = ChangesetRecord {
                    id,
                    plan_id: lease.plan,
                    sandbox_id: sandbox,
                    attempt,
                    step,
                    state: ChangesetState::Open,
                    entries: 0,
                    started_at: tx.now()?,
                    closed_at: None,
                };
                tx.insert_changeset(&started)?;
                let actor = lease.owner.to_string();
                let started = new_event(&actor, &ChangesetStarted(started))?;
                tx.append(StreamId::Plan(lease.plan), &[started])?;
                Ok::<_, StoreError>(())
            })
            .await?;
        Ok(self.handle(id, sandbox))
    }

    /// Returns the handle of an existing changeset of this plan.
    pub async fn changeset(&self, id: ChangesetId) -> Result<Changeset> {
        let plan = self.lease.plan;
        let found = self
            .store
            .read(move |tx| changeset_of(tx, plan, id))
            .await?;
        Ok(self.handle(id, found.sandbox_id))
    }

    /// Closes the changesets that earlier owners left open. They can no longer record in them.
    pub async fn close_abandoned(&self) -> Result<()> {
        // Earlier owners cannot start new ones, so this read is safe, and usually nothing has to be
        // written.
        let all = self.changesets().await?;
        if all.iter().all(|it| it.state != ChangesetState::Open) {
            return Ok(());
        }
        let lease = self.lease.clone();
        // Read again inside the transaction: an open changeset may have been closed since (law 1).
        let operation = StoreOperation::new(&*self.ids, "changeset.close-unfinished");
        self.store
            .write(operation, move |tx| {
                tx.fence(&lease)?;
                let all = tx.changesets_of(lease.plan)?.into_iter();
                let open = all.filter(|it| it.state == ChangesetState::Open);
                let mut events = Vec::new();
                for changeset in open.collect::<Vec<_>>() {
                    events.extend(close(tx, changeset.id, &lease)?);
                }
                if !events.is_empty() {
                    tx.append(StreamId::Plan(lease.plan), &events)?;
                }
                Ok::<_, StoreError>(())
            })
            .await
    }

    /// Returns the plan's changesets in the order they were started.
    pub async fn changesets(&self) -> Result<Vec<ChangesetRecord>> {
        let plan = self.lease.plan;
        self.store.read(move |tx| tx.changesets_of(plan)).await
    }

    /// Returns all entries of a changeset of this plan, in order, from one snapshot.
    pub async fn changes(&self, id: ChangesetId) -> Result<Vec<RecordedChange>> {
        let plan = self.lease.plan;
        self.store
            .read(move |tx| {
                changeset_of(tx, plan, id)?;
                let mut changes: Vec<RecordedChange> = Vec::new();
                loop {
                    let after = changes.last().map_or(0, |change| change.entry.sequence);
                    let page = tx.changes_after(id, after, PAGE)?;
                    if page.is_empty() {
                        return Ok::<_, StoreError>(changes);
                    }
                    changes.extend(page);
                }
            })
            .await
    }

    fn handle(&self, id: ChangesetId, sandbox: SandboxId) -> Changeset {
        Changeset {
            context: self.clone(),
            id,
            sandbox,
        }
    }
}

/// Handle of a started changeset: the only way to record a change (law 4). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Changeset {
    context: ExecutionContext,
    id: ChangesetId,
    sandbox: SandboxId,
}

impl Changeset {
    pub fn id(&self) -> ChangesetId {
        self.id
    }

    pub fn plan(&self) -> PlanId {
        self.context.lease.plan
    }

    pub fn sandbox(&self) -> SandboxId {
        self.sandbox
    }

    /// Records changes in this changeset, all or none, with one event each.
    pub async fn record(&self, changes: Vec<NewChange>) -> Result<Vec<ChangeEntry>> {
        let changeset = self.clone();
        let operation = StoreOperation::new(&*self.context.ids, "changeset.record");
        self.context
            .store
            .write(operation, move |tx| {
                let actor = changeset.context.lease.owner.to_string();
                let (entries, events) = changeset.record_in(tx, &actor, &changes)?;
                tx.append(StreamId::Plan(changeset.plan()), &events)?;
                Ok::<_, StoreError>(entries)
            })
            .await
    }

    /// Like [`Self::record`], inside a transaction that writes more. It starts with the fence,
    /// which locks the run, so it must come before anything that is locked after the run. The
    /// caller must append the returned events last.
    pub fn record_in(
        &self,
        tx: &mut dyn Transaction,
        actor: &str,
        changes: &[NewChange],
    ) -> Result<(Vec<ChangeEntry>, Vec<NewEvent>)> {
        tx.fence(&self.context.lease)?;
        for change in changes {
            // The sequence number is not known yet; validation does not use it.
            change
                .clone()
                .into_entry(0)
                .validate()
                .map_err(invalid_change)?;
        }
        let entries = tx.record_changes(self.id, changes)?;
        let to_event = |entry: &ChangeEntry| {
            let record = ChangeRecorded {
                changeset_id: self.id,
                entry: entry.clone(),
            };
            new_event(actor, &record)
        };
        let events = entries.iter().map(to_event).collect::<Result<_>>()?;
        Ok((entries, events))
    }

    /// Closes the changeset; it accepts no more changes. Idempotent.
    pub async fn close(&self) -> Result<()> {
        let (id, lease) = (self.id, self.context.lease.clone());
        let operation = StoreOperation::new(&*self.context.ids, "changeset.close");
        self.context
            .store
            .write(operation, move |tx| {
                tx.fence(&lease)?;
                if let Some(closed) = close(tx, id, &lease)? {
                    tx.append(StreamId::Plan(lease.plan), &[closed])?;
                }
                Ok::<_, StoreError>(())
            })
            .await
    }
}

/// Closes a changeset unless it is closed. The caller must append the event last.
fn close(tx: &mut dyn Transaction, id: ChangesetId, lease: &Lease) -> Result<Option<NewEvent>> {
    let now = tx.now()?;
    // Zero rows: it is closed already, and a second event would contradict the first.
    if tx.close_changeset(id, now)? == 0 {
        return Ok(None);
    }
    let entries = tx.changeset(id)?.entries;
    let record = ChangesetClosed {
        changeset_id: id,
        entries,
    };
    new_event(&lease.owner.to_string(), &record).map(Some)
}

/// Returns a changeset. Fails if it does not belong to the plan.
fn changeset_of(
    tx: &mut dyn Transaction,
    plan: PlanId,
    id: ChangesetId,
) -> Result<ChangesetRecord> {
    let found = tx.changeset(id)?;
    // An id alone must not give access to another plan's changes.
    if found.plan_id == plan {
        Ok(found)
    } else {
        Err(StoreError::NotFound {
            entity: Entity::ChangesetOfPlan,
            id: id.to_string(),
        })
    }
}

fn invalid_change(error: ChangeError) -> StoreError {
    let (path, reason) = match error {
        ChangeError::State { path, rule } => (path, format!("must {rule}")),
        ChangeError::RenamedToItself { path } => (path, "cannot go to the same path".to_owned()),
    };
    StoreError::Refused {
        entity: Entity::Change,
        id: path.to_string(),
        reason,
    }
}
