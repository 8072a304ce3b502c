//! Prepares every target of an attempt and locks them all before the decision.
//!
//! Until all targets are locked, none is changed. So a commit by the user either comes before, and
//! is merged or conflicts, or it waits until all parts are done.

use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyPartState, ApplyRecord};
use tokio::task::spawn_blocking;

use super::ApplyRun;
use super::attempt::required_intent;
use super::error::{ApplyFailure, Result};
use crate::execution::OwnerError;
use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, CommitOutcome, Conflict, LockOutcome, PrepareOutcome, TargetLocks,
    TargetResult,
};

/// Maximum number of changes to targets between preparing and locking them.
const TRIES: u32 = 8;

/// The locks of all targets that are still to be changed.
pub(super) type BoxedTargetLocks = Box<dyn TargetLocks>;

/// Outcome of preparing all targets.
pub(super) enum PrepareAllOutcome {
    Locked(ApplyRecord, BoxedTargetLocks),
    Blocked(ApplyRecord, Vec<Conflict>),
}

impl ApplyRun<'_> {
    /// Prepares every target and locks them all. On an error everything prepared is removed, unless
    /// the lease is lost: then the next owner removes it.
    pub(super) async fn prepare_and_lock(
        &mut self,
        record: ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<PrepareAllOutcome> {
        let mut record = record;
        match self.try_to_lock(&mut record, requests).await {
            Ok(Ok(locks)) => Ok(PrepareAllOutcome::Locked(record, locks)),
            Ok(Err(conflicts)) => Ok(PrepareAllOutcome::Blocked(record, conflicts)),
            Err(error) => {
                if !error.is_lease_lost() {
                    self.service
                        .log(self.run)
                        .abort_prepared(record, &error.to_string())
                        .await?;
                }
                Err(error)
            }
        }
    }

    async fn try_to_lock(
        &mut self,
        record: &mut ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<Result<BoxedTargetLocks, Vec<Conflict>>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let conflicts = self.prepare_all(record, requests).await?;
            if !conflicts.is_empty() {
                return Ok(Err(conflicts));
            }
            match self.lock(record).await? {
                LockOutcome::Held(locks) => return Ok(Ok(locks)),
                LockOutcome::Blocked(conflicts) if tries == TRIES => return Ok(Err(conflicts)),
                // A target changed in between. Preparing again merges the change or returns the
                // conflict.
                LockOutcome::Blocked(_) => {}
            }
        }
    }

    async fn prepare_all(
        &mut self,
        record: &mut ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let (targets, owned_requests) = (Arc::clone(&self.service.targets), requests.to_vec());
        let all = spawn_blocking(move || targets.prepare_all(&owned_requests)).await?;
        for (index, prepared) in all.into_iter().enumerate() {
            let prepared = prepared?;
            if let PrepareOutcome::Ready(intent) = &prepared {
                let part = &record.resources[index];
                conflicts.extend(self.merge_obstacle(record, part, intent).await?);
            }
            let part = &mut record.resources[index];
            match prepared {
                PrepareOutcome::Ready(intent) => {
                    part.state = ApplyPartState::Ready;
                    part.intent = Some(intent);
                    *record = self.service.log(self.run).save(record.clone()).await?;
                }
                PrepareOutcome::Nothing => {
                    part.state = ApplyPartState::Nothing;
                    part.intent = None;
                }
                PrepareOutcome::Blocked(found) => conflicts.extend(found),
            }
        }
        Ok(conflicts)
    }

    /// Locks the targets of all parts that are ready.
    pub(super) async fn lock(&self, record: &ApplyRecord) -> Result<LockOutcome> {
        let mut intents: Vec<ApplyIntent> = Vec::new();
        for part in &record.resources {
            if part.state == ApplyPartState::Ready {
                intents.push(required_intent(part)?);
            }
        }
        let targets = Arc::clone(&self.service.targets);
        Ok(spawn_blocking(move || targets.lock(&intents)).await??)
    }

    /// Commits one part, under its locks if they are held.
    pub(super) async fn commit_part(
        &self,
        intent: ApplyIntent,
        locks: &mut Option<BoxedTargetLocks>,
    ) -> Result<TargetResult<CommitOutcome>> {
        let targets = Arc::clone(&self.service.targets);
        let mut held = locks.take();
        let (held, outcome) = spawn_blocking(move || {
            let outcome = match &mut held {
                Some(locks) => locks.commit(&intent),
                None => targets.commit(&intent),
            };
            (held, outcome)
        })
        .await?;
        *locks = held;
        Ok::<_, ApplyFailure>(outcome)
    }
}
