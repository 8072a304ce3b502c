//! Resumes a decided apply that was stopped by changes of its targets.
//!
//! As long as nothing is written, a part stopped by new commits in its target is merged with them,
//! so two plans applied to one branch at the same moment both succeed. The merge is validated
//! first, but only by a command that applies the plan (`UnvalidatedMergePolicy`).

use std::sync::Arc;

use cleveragents_domain::apply_record::{
    ApplyDirection, ApplyPart, ApplyPartState, ApplyRecord, ApplyState,
};
use tokio::task::spawn_blocking;

use super::ApplyRun;
use super::attempt::{failure_conflict, required_intent};
use super::error::{ApplyFailure, Result};
use super::lock::BoxedTargetLocks;
use cleveragents_ports::targets::{
    ApplyRequest, Conflict, LockOutcome, MissingTargetPolicy, PrepareOutcome, RequestedChange,
};
use cleveragents_ports::{StoreError, Transaction};

/// Number of late changes to a target after which the conflict is reported.
const TRIES: u32 = 8;

/// Outcome of locking the targets of an earlier decision.
enum RelockOutcome {
    Held(BoxedTargetLocks),
    /// Each part takes its own locks.
    OneByOne,
    /// Nothing is written, and a target is blocked.
    Blocked(Vec<Conflict>),
    /// Nothing is written, and a target can never be locked.
    Failed(Conflict),
}

impl ApplyRun<'_> {
    /// Commits a decided apply. Stopped parts are prepared again first. Returns the conflicts of
    /// the last try.
    pub(super) async fn commit_with_retry(
        &mut self,
        record: ApplyRecord,
        locks: Option<BoxedTargetLocks>,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut locks = locks;
        let mut tries = 0;
        loop {
            tries += 1;
            let (prepared, blocked) = self.prepare_stopped(record).await?;
            // All or nothing: as long as nothing is written, a blocked part stops all.
            if !blocked.is_empty() && !prepared.has_written() {
                return Ok((prepared, blocked));
            }
            if locks.is_none() {
                match self.relock(&prepared).await? {
                    RelockOutcome::Held(held) => locks = Some(held),
                    RelockOutcome::OneByOne => {}
                    RelockOutcome::Failed(conflict) => return Ok((prepared, vec![conflict])),
                    RelockOutcome::Blocked(conflicts) => {
                        let is_final = conflicts.iter().any(|it| it.reason.is_final());
                        if is_final || tries == TRIES {
                            return Ok((prepared, conflicts));
                        }
                        // Undo the started parts, then prepare everything again.
                        let (aborted, conflicts) = self
                            .service
                            .reversal(self.run)
                            .abort_parts(prepared, MissingTargetPolicy::Stop)
                            .await?;
                        record = aborted;
                        if !conflicts.is_empty() {
                            return Ok((record, conflicts));
                        }
                        continue;
                    }
                }
            }
            let (committed, conflicts) = self.commit(prepared, locks.take()).await?;
            record = committed;
            let is_final = conflicts.iter().any(|it| it.reason.is_final());
            if conflicts.is_empty() || !blocked.is_empty() || is_final || tries == TRIES {
                return Ok((record, [blocked, conflicts].concat()));
            }
        }
    }

    /// Locks the targets of an earlier decision together. If that fails and a part is already
    /// written, the remaining parts are committed one by one.
    async fn relock(&self, record: &ApplyRecord) -> Result<RelockOutcome> {
        let ready = record.resources.iter();
        if ready.filter(|it| it.state == ApplyPartState::Ready).count() < 2 {
            // With one part left there is nothing to lock together.
            return Ok(RelockOutcome::OneByOne);
        }
        match self.lock(record).await {
            Ok(LockOutcome::Held(locks)) => Ok(RelockOutcome::Held(locks)),
            Ok(LockOutcome::Blocked(conflicts)) if !record.has_written() => {
                Ok(RelockOutcome::Blocked(conflicts))
            }
            // A lasting error is reported as a conflict that the user can resolve. A temporary one
            // is retried.
            Err(ApplyFailure::Target(error)) if !error.is_temporary() && !record.has_written() => {
                Ok(RelockOutcome::Failed(failure_conflict(&error, None)))
            }
            Ok(LockOutcome::Blocked(_)) => Ok(RelockOutcome::OneByOne),
            Err(ApplyFailure::Target(error)) if !error.is_temporary() => {
                Ok(RelockOutcome::OneByOne)
            }
            Err(error) => Err(error),
        }
    }

    /// Prepares stopped parts again. Parts that are ready keep their intent.
    async fn prepare_stopped(
        &mut self,
        record: ApplyRecord,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut blocked = Vec::new();
        for index in 0..record.resources.len() {
            let state = record.resources[index].state;
            // A blocked abort may have reversed some parts; these are applied again too.
            if !matches!(state, ApplyPartState::Stopped | ApplyPartState::Aborted) {
                continue;
            }
            let request = self.rebuild_request(&record, index).await?;
            let resource = request.resource.clone();
            let prepared = match self.prepare(request).await {
                Err(ApplyFailure::Target(error)) if !error.is_temporary() => {
                    PrepareOutcome::Blocked(vec![failure_conflict(&error, resource)])
                }
                prepared => prepared?,
            };
            let prepared = self
                .block_unvalidated_merge(&record, index, prepared)
                .await?;
            let part = &mut record.resources[index];
            // The old obstacles describe the previous preparation.
            part.obstacles.clear();
            part.written.clear();
            match prepared {
                PrepareOutcome::Ready(intent) => {
                    part.state = ApplyPartState::Ready;
                    part.intent = Some(intent);
                }
                PrepareOutcome::Nothing => part.state = ApplyPartState::Nothing,
                PrepareOutcome::Blocked(found) => {
                    part.state = ApplyPartState::Stopped;
                    part.obstacles.clone_from(&found);
                    blocked.extend(found);
                }
            }
            // Saved after each part (law 9), so that recovery knows the intent of every prepared
            // part.
            record = self.service.log(self.run).save(record).await?;
        }
        Ok((record, blocked))
    }

    /// Returns `prepared`, or a conflict if its merge must not be committed. In that case the
    /// prepared data is removed and the part stays stopped.
    async fn block_unvalidated_merge(
        &self,
        record: &ApplyRecord,
        index: usize,
        prepared: PrepareOutcome,
    ) -> Result<PrepareOutcome> {
        let PrepareOutcome::Ready(intent) = prepared else {
            return Ok(prepared);
        };
        let part = &record.resources[index];
        let Some(obstacle) = self.merge_obstacle(record, part, &intent).await? else {
            return Ok(PrepareOutcome::Ready(intent));
        };
        let targets = Arc::clone(&self.service.targets);
        spawn_blocking(move || targets.discard_prepared(&intent)).await??;
        Ok(PrepareOutcome::Blocked(vec![obstacle]))
    }

    /// Rebuilds the request for a target from the record.
    async fn rebuild_request(&self, record: &ApplyRecord, index: usize) -> Result<ApplyRequest> {
        let part = &record.resources[index];
        let intent = required_intent(part)?;
        let (plan, sandbox) = (record.plan_id, part.sandbox_id);
        let load = move |tx: &mut dyn Transaction| {
            Ok::<_, StoreError>((tx.sandbox(sandbox)?, tx.applies_of(plan)?))
        };
        let (sandbox, applies) = self.service.services.store.read(load).await?;
        if record.direction == ApplyDirection::Unapply {
            let applied = applied_part(&applies, part).ok_or_else(|| {
                StoreError::internal(format!("the data that apply {} undoes is gone", record.id))
            })?;
            let applied = required_intent(applied)?;
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

/// Returns the part of the last apply that this part reverses. The apply is done, or stopped and
/// being aborted.
fn applied_part<'a>(applies: &'a [ApplyRecord], part: &ApplyPart) -> Option<&'a ApplyPart> {
    let done = |it: &&ApplyRecord| {
        it.direction == ApplyDirection::Apply && it.state != ApplyState::Aborted
    };
    let parts = applies.iter().rfind(done)?.resources.iter();
    let same = |it: &&ApplyPart| it.sandbox_id == part.sandbox_id;
    parts
        .filter(|it| it.state == ApplyPartState::Done)
        .find(same)
}
