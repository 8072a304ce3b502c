//! Preparing every target of an attempt and locking them all, before anything is decided.
//!
//! Until all are locked nothing of any is changed, so a user's commit either comes before, and is
//! merged with or stands in the way of everything, or it waits until all parts are done.

use std::sync::Arc;

use cleveragents_domain::application::{ApplyRecord, PartState};
use tokio::task::spawn_blocking;

use super::ApplyService;
use super::attempt::{read, value};
use super::error::{ApplyFailure, Result};
use crate::ports::targets::{
    ApplyIntent, ApplyRequest, Carried, Conflict, Locked, Prepared, TargetLocks, TargetResult,
};
use crate::runs::RunLease;

/// How often targets may change between preparing and locking them.
const TRIES: u32 = 8;

/// The locks of all targets that are still to be changed.
pub(super) type Locks = Box<dyn TargetLocks>;

/// What became of preparing all targets.
pub(super) enum PreparedAll {
    Locked(ApplyRecord, Locks),
    Blocked(ApplyRecord, Vec<Conflict>),
}

impl ApplyService {
    /// Prepares every target and locks them all. After an error everything is taken back.
    pub(super) async fn prepare_and_lock(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<PreparedAll> {
        let mut record = record;
        match self.try_to_lock(run, &mut record, requests).await {
            Ok(Ok(locks)) => Ok(PreparedAll::Locked(record, locks)),
            Ok(Err(conflicts)) => Ok(PreparedAll::Blocked(record, conflicts)),
            Err(error) => {
                if !error.is_lease_lost() {
                    self.take_back(run, record, &error.to_string()).await?;
                }
                Err(error)
            }
        }
    }

    async fn try_to_lock(
        &self,
        run: &RunLease,
        record: &mut ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<Result<Locks, Vec<Conflict>>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let conflicts = self.prepare_all(run, record, requests).await?;
            if !conflicts.is_empty() {
                return Ok(Err(conflicts));
            }
            match self.lock(record).await? {
                Locked::Held(locks) => return Ok(Ok(locks)),
                Locked::Blocked(conflicts) if tries == TRIES => return Ok(Err(conflicts)),
                // Preparing anew merges with what came in between, or says why it cannot.
                Locked::Blocked(_) => {}
            }
        }
    }

    async fn prepare_all(
        &self,
        run: &RunLease,
        record: &mut ApplyRecord,
        requests: &[ApplyRequest],
    ) -> Result<Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let (targets, wanted) = (Arc::clone(&self.targets), requests.to_vec());
        let all = spawn_blocking(move || targets.prepare_all(&wanted)).await?;
        for (place, prepared) in all.into_iter().enumerate() {
            let prepared = prepared?;
            if let Prepared::Ready(intent) = &prepared {
                let part = &record.resources[place];
                conflicts.extend(self.merge_obstacle(run, (record, part), intent).await?);
            }
            let part = &mut record.resources[place];
            match prepared {
                Prepared::Ready(intent) => {
                    part.state = PartState::Ready;
                    part.intent = Some(value(&intent)?);
                    *record = self.save(run, record.clone()).await?;
                }
                Prepared::Nothing => {
                    part.state = PartState::Nothing;
                    part.intent = None;
                }
                Prepared::Blocked(found) => conflicts.extend(found),
            }
        }
        Ok(conflicts)
    }

    /// Locks the targets of all parts that are ready.
    pub(super) async fn lock(&self, record: &ApplyRecord) -> Result<Locked> {
        let mut intents: Vec<ApplyIntent> = Vec::new();
        for part in &record.resources {
            if part.state == PartState::Ready {
                intents.push(read(part.intent.clone())?);
            }
        }
        let targets = Arc::clone(&self.targets);
        Ok(spawn_blocking(move || targets.lock(&intents)).await??)
    }

    /// Carries out one part, under its locks where they are held.
    pub(super) async fn carry_out_part(
        &self,
        intent: ApplyIntent,
        locks: &mut Option<Locks>,
    ) -> Result<TargetResult<Carried>> {
        let targets = Arc::clone(&self.targets);
        let mut held = locks.take();
        let (held, carried) = spawn_blocking(move || {
            let carried = match &mut held {
                Some(locks) => locks.carry_out(&intent),
                None => targets.carry_out(&intent),
            };
            (held, carried)
        })
        .await?;
        *locks = held;
        Ok::<_, ApplyFailure>(carried)
    }
}
