//! Going on where somebody else's change stopped what was decided.
//!
//! As long as nothing of it was written, what a target's own commits stopped is merged with them:
//! two plans that are applied to one branch at the same moment both get there.

use cleveragents_domain::application::{ApplyPart, ApplyRecord, ApplyState, Direction, PartState};

use super::ApplyService;
use super::attempt::{read, value};
use super::error::Result;
use crate::ports::targets::{ApplyIntent, ApplyRequest, Conflict, Prepared, RequestedChange};
use crate::ports::{StoreError, Unit};
use crate::runs::RunLease;

/// How often a target may change in the last moment before a human is told.
const TRIES: u32 = 8;

impl ApplyService {
    /// Carries out what was decided, working out anew what was stopped before. The conflicts that
    /// are left are those of the last try.
    pub(super) async fn carry_on(
        &self,
        run: &RunLease,
        record: ApplyRecord,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut tries = 0;
        loop {
            tries += 1;
            let (prepared, blocked) = self.prepare_stopped(run, record).await?;
            let (carried, conflicts) = self.carry_out(run, prepared).await?;
            record = carried;
            if conflicts.is_empty() || !blocked.is_empty() || tries == TRIES {
                return Ok((record, [blocked, conflicts].concat()));
            }
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
            let prepared = self.prepare(request).await?;
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
