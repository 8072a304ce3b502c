//! Going on where somebody else's change stopped what was decided.
//!
//! As long as nothing of it was written, what a target's own commits stopped is merged with them:
//! two plans that are applied to one branch at the same moment both get there. What is merged is
//! validated first, by whoever applies the plan.

use std::sync::Arc;

use cleveragents_domain::application::{ApplyPart, ApplyRecord, ApplyState, Direction, PartState};
use tokio::task::spawn_blocking;

use super::ApplyService;
use super::attempt::{failure, read, value};
use super::error::{ApplyFailure, Result};
use super::lock::Locks;
use crate::ports::targets::{
    ApplyIntent, ApplyRequest, Conflict, IfGone, Locked, Prepared, RequestedChange,
};
use crate::ports::{StoreError, Unit};
use crate::runs::RunLease;

/// How often a target may change in the last moment before a human is told.
const TRIES: u32 = 8;

/// What became of locking targets that were decided about earlier.
enum LockedAgain {
    Held(Locks),
    /// Each part takes its own locks.
    Alone,
    /// Nothing of any is written, and one of them is blocked.
    Blocked(Vec<Conflict>),
    /// Nothing of any is written, and one of them will never be locked.
    Failed(Conflict),
}

impl ApplyService {
    /// Carries out what was decided, working out anew what was stopped before. The conflicts that
    /// are left are those of the last try.
    pub(super) async fn carry_on(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        locks: Option<Locks>,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut locks = locks;
        let mut tries = 0;
        loop {
            tries += 1;
            let (prepared, blocked) = self.prepare_stopped(run, record).await?;
            // All or none: as long as nothing is written anywhere, what stops one stops all.
            if !blocked.is_empty() && !prepared.has_written() {
                return Ok((prepared, blocked));
            }
            if locks.is_none() {
                match self.lock_again(&prepared).await? {
                    LockedAgain::Held(held) => locks = Some(held),
                    LockedAgain::Alone => {}
                    LockedAgain::Failed(conflict) => return Ok((prepared, vec![conflict])),
                    LockedAgain::Blocked(conflicts) => {
                        let is_final = conflicts.iter().any(|it| it.reason.is_final());
                        if is_final || tries == TRIES {
                            return Ok((prepared, conflicts));
                        }
                        // What was begun is taken back, and then prepared anew with all else.
                        let (aborted, conflicts) =
                            self.abort_parts(run, prepared, IfGone::Stop).await?;
                        record = aborted;
                        if !conflicts.is_empty() {
                            return Ok((record, conflicts));
                        }
                        continue;
                    }
                }
            }
            let (carried, conflicts) = self.carry_out(run, prepared, locks.take()).await?;
            record = carried;
            let is_final = conflicts.iter().any(|it| it.reason.is_final());
            if conflicts.is_empty() || !blocked.is_empty() || is_final || tries == TRIES {
                return Ok((record, [blocked, conflicts].concat()));
            }
        }
    }

    /// Locks several targets that were decided about earlier. Where one of them is done already,
    /// the others are gone on with one by one if they cannot all be locked.
    async fn lock_again(&self, record: &ApplyRecord) -> Result<LockedAgain> {
        let ready = record.resources.iter();
        if ready.filter(|it| it.state == PartState::Ready).count() < 2 {
            return Ok(LockedAgain::Alone);
        }
        match self.lock(record).await {
            Ok(Locked::Held(locks)) => Ok(LockedAgain::Held(locks)),
            Ok(Locked::Blocked(conflicts)) if !record.has_written() => {
                Ok(LockedAgain::Blocked(conflicts))
            }
            Err(ApplyFailure::Target(error)) if !error.is_temporary() && !record.has_written() => {
                Ok(LockedAgain::Failed(failure(&error, None)))
            }
            Ok(Locked::Blocked(_)) => Ok(LockedAgain::Alone),
            Err(ApplyFailure::Target(error)) if !error.is_temporary() => Ok(LockedAgain::Alone),
            Err(error) => Err(error),
        }
    }

    /// Works out anew what was stopped; what was begun stays as it was meant.
    async fn prepare_stopped(
        &self,
        run: &RunLease,
        record: ApplyRecord,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut blocked = Vec::new();
        for place in 0..record.resources.len() {
            let state = record.resources[place].state;
            // What an abort took back before it was blocked is brought there again.
            if !matches!(state, PartState::Stopped | PartState::TakenBack) {
                continue;
            }
            let request = self.request_again(&record, place).await?;
            let resource = request.resource.clone();
            let prepared = match self.prepare(request).await {
                Err(ApplyFailure::Target(error)) if !error.is_temporary() => {
                    Prepared::Blocked(vec![failure(&error, resource)])
                }
                prepared => prepared?,
            };
            let prepared = self
                .unless_unvalidated(run, (&record, place), prepared)
                .await?;
            let part = &mut record.resources[place];
            part.obstacles.clear();
            part.written.clear();
            match prepared {
                Prepared::Ready(intent) => {
                    part.state = PartState::Ready;
                    part.intent = Some(value(&intent)?);
                }
                Prepared::Nothing => part.state = PartState::Nothing,
                Prepared::Blocked(found) => {
                    part.state = PartState::Stopped;
                    for conflict in &found {
                        part.obstacles.push(value(conflict)?);
                    }
                    blocked.extend(found);
                }
            }
            record = self.save(run, record).await?;
        }
        Ok((record, blocked))
    }

    /// What was prepared, or why it may not be committed: then nothing of it is kept, and the part
    /// is as it stopped.
    async fn unless_unvalidated(
        &self,
        run: &RunLease,
        (record, place): (&ApplyRecord, usize),
        prepared: Prepared,
    ) -> Result<Prepared> {
        let Prepared::Ready(intent) = prepared else {
            return Ok(prepared);
        };
        let part = &record.resources[place];
        let Some(obstacle) = self.merge_obstacle(run, (record, part), &intent).await? else {
            return Ok(Prepared::Ready(intent));
        };
        let targets = Arc::clone(&self.targets);
        spawn_blocking(move || targets.take_back(&intent)).await??;
        Ok(Prepared::Blocked(vec![obstacle]))
    }

    /// What was asked of a target, once more.
    async fn request_again(&self, record: &ApplyRecord, place: usize) -> Result<ApplyRequest> {
        let part = &record.resources[place];
        let intent: ApplyIntent = read(part.intent.clone())?;
        let (plan, sandbox) = (record.plan_id, part.sandbox_id);
        let look = move |unit: &mut dyn Unit| {
            Ok::<_, StoreError>((unit.sandbox(sandbox)?, unit.applies_of(plan)?))
        };
        let (sandbox, applies) = self.executor.store.read(look).await?;
        if record.direction == Direction::Unapply {
            let applied = applied_part(&applies, part).ok_or_else(|| {
                StoreError::internal(format!("what apply {} takes back is gone", record.id))
            })?;
            let applied: ApplyIntent = read(applied.intent.clone())?;
            return Ok(ApplyRequest::reverse(part.id, &applied, intent.commit));
        }
        let missing = || StoreError::internal(format!("sandbox {} has no tree", sandbox.id));
        Ok(ApplyRequest {
            id: part.id,
            plan,
            resource: intent.resource,
            resource_type: intent.resource_type,
            change: RequestedChange::Result {
                sandbox: sandbox.id,
                from: sandbox.base_tree.clone().ok_or_else(missing)?,
                to: sandbox.tree.clone().ok_or_else(missing)?,
                base_commit: sandbox.base_commit.clone(),
            },
            destination: intent.destination,
            commit: intent.commit,
        })
    }
}

/// The part of the last apply which this one takes back: of one that was done, or that stopped and
/// is aborted.
fn applied_part<'a>(applies: &'a [ApplyRecord], part: &ApplyPart) -> Option<&'a ApplyPart> {
    let done =
        |it: &&ApplyRecord| it.direction == Direction::Apply && it.state != ApplyState::TakenBack;
    let parts = applies.iter().rfind(done)?.resources.iter();
    let same = |it: &&ApplyPart| it.sandbox_id == part.sandbox_id;
    parts.filter(|it| it.state == PartState::Done).find(same)
}
