//! One attempt: prepare, decide, commit, confirm.

use std::sync::Arc;

use cleveragents_domain::apply_intent::AppliedResult;
use cleveragents_domain::apply_record::{
    ApplyDirection, ApplyPart, ApplyPartState, ApplyRecord, ApplyState,
};
use cleveragents_domain::approval::ApprovedApply;
use cleveragents_domain::event::payloads::{
    ApplyAborted, ApplyDecided, ApplyIntended, ApplyStopped,
};
use cleveragents_domain::id::ApplyId;
use cleveragents_domain::plan_trailer::PlanTrailer;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{
    AbsolutePath, ErrorCategory, EventPayload, MessageKind, Move, Plan, PlanState, StreamId,
    Timestamp,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::error::{ApplyFailure, Result};
use super::lock::{BoxedTargetLocks, PrepareAllOutcome};
use super::{ApplyLog, ApplyOutcome, ApplyRun, ApplyService};
use crate::error_history::{NewErrorRecord, record_error};
use crate::execution::change_sandbox_state;
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, move_plan};
use cleveragents_ports::sandbox::CommitMetadata;
use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, Author, CommitOutcome, Conflict, ConflictReason, Destination,
    PrepareOutcome, RequestedChange, StoppedCommit, TargetError, TargetResult,
};
use cleveragents_ports::{StoreError, Transaction};

/// A stored attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedAttempt {
    pub(super) record: ApplyRecord,
    /// The hash of the event that recorded it.
    journal_hash: String,
}

impl RecordedAttempt {
    /// Adds the trailer to the commits of the attempt. It becomes a part of their intents, so a
    /// commit that is repeated after a crash has the same message (law 9).
    pub(super) fn add_trailer(&self, requests: &mut [ApplyRequest]) {
        let trailer = PlanTrailer {
            plan: self.record.plan_id,
            journal_hash: self.journal_hash.clone(),
        };
        for request in requests {
            request.commit.message.push_str(&format!("{trailer}\n"));
        }
    }
}

impl ApplyService {
    /// Returns the metadata of a commit, without the trailer.
    pub(super) fn commit_text(
        &self,
        plan: &Plan,
        author: Option<Author>,
        subject: &str,
    ) -> CommitMetadata {
        let author = author.unwrap_or_else(|| Author {
            name: "CleverAgents".to_owned(),
            email: "agents@localhost".to_owned(),
        });
        CommitMetadata {
            name: author.name,
            email: author.email,
            // Taken once and stored with the intent, so that a repeated commit has the same hash
            // (law 9).
            seconds: self.services.clock.now().as_micros() / 1_000_000,
            message: format!("{subject}\n\nPlan: {}\n", plan.name),
        }
    }

    pub(super) fn new_record(
        &self,
        plan: &Plan,
        direction: ApplyDirection,
        destination: Destination,
        resources: Vec<ApplyPart>,
    ) -> ApplyRecord {
        ApplyRecord {
            id: ApplyId::new(self.services.ids.next()),
            plan_id: plan.identity.plan_id,
            number: 0,
            direction,
            node: self.services.node.clone(),
            destination,
            state: ApplyState::Preparing,
            resources,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            version: 1,
        }
    }
}

impl ApplyRun<'_> {
    /// Prepares every target, decides, and commits.
    pub(super) async fn begin(&mut self, request: &ApprovedApply) -> Result<ApplyOutcome> {
        let plan = self.run.plan.clone();
        let id = plan.identity.plan_id;
        let read = move |tx: &mut dyn Transaction| tx.sandboxes_of(id);
        let sandboxes = self.service.services.store.read(read).await?;
        // Checked before an intent is recorded, so that a missing target leaves no attempt to clean
        // up.
        let gone = self.unusable_targets(&sandboxes).await?;
        if !gone.is_empty() {
            let plan = self.constrain(&join_conflicts(&gone)).await?;
            let conflicts = gone;
            return Ok(ApplyOutcome::Blocked { plan, conflicts });
        }
        let mut requests = Vec::with_capacity(sandboxes.len());
        for sandbox in &sandboxes {
            requests.push(self.build_request(&plan, sandbox, request).await?);
        }
        let parts = sandboxes.iter().zip(&requests);
        let parts = parts.map(|(sandbox, request)| new_part(request.id, sandbox));
        let destination = request.destination.clone();
        let record =
            self.service
                .new_record(&plan, ApplyDirection::Apply, destination, parts.collect());
        // Durable before the first target is prepared (law 9): recovery finds every prepared part
        // by it.
        let recorded = self.service.log(self.run).record_intent(record).await?;
        recorded.add_trailer(&mut requests);
        let (record, locks) = match self.prepare_and_lock(recorded.record, &requests).await? {
            PrepareAllOutcome::Locked(record, locks) => (record, locks),
            PrepareAllOutcome::Blocked(record, conflicts) => {
                let reason = join_conflicts(&conflicts);
                self.service
                    .log(self.run)
                    .abort_prepared(record, &reason)
                    .await?;
                if let Some(failed) = failed_validations(&conflicts) {
                    self.run.record_error(failed).await?;
                }
                let plan = self.constrain(&reason).await?;
                return Ok(ApplyOutcome::Blocked { plan, conflicts });
            }
        };
        match self.service.log(self.run).decide(record.clone()).await? {
            Some(record) => self.commit_decided(record, Some(locks)).await,
            None => {
                // Released first: removing prepared data takes the locks of each target itself.
                drop(locks);
                let reason = "it was cancelled before the decision";
                self.service
                    .log(self.run)
                    .abort_prepared(record, reason)
                    .await?;
                // `release` consumes the cancel message and cancels the plan.
                Ok(ApplyOutcome::Cancelled(self.run.plan.clone()))
            }
        }
    }

    async fn build_request(
        &self,
        plan: &Plan,
        sandbox: &SandboxRecord,
        request: &ApprovedApply,
    ) -> Result<ApplyRequest> {
        let missing = || StoreError::internal(format!("sandbox {} has no tree", sandbox.id));
        let author = match &request.author {
            Some(author) => Some(author.clone()),
            None => {
                let (targets, path) = (
                    Arc::clone(&self.service.targets),
                    sandbox.resource_path.clone(),
                );
                spawn_blocking(move || targets.author(&path)).await??
            }
        };
        Ok(ApplyRequest {
            id: ApplyId::new(self.service.services.ids.next()),
            plan: plan.identity.plan_id,
            resource: sandbox.resource_path.clone(),
            resource_type: sandbox.resource_type,
            change: RequestedChange::Result {
                sandbox: sandbox.id,
                from: sandbox.base_tree.clone().ok_or_else(missing)?,
                to: sandbox.tree.clone().ok_or_else(missing)?,
                base_commit: sandbox.base_commit.clone(),
            },
            destination: request.destination.clone(),
            commit: self
                .service
                .commit_text(plan, author, &plan.brief.description),
        })
    }

    pub(super) async fn prepare(&self, request: ApplyRequest) -> Result<PrepareOutcome> {
        let targets = Arc::clone(&self.service.targets);
        Ok(spawn_blocking(move || targets.prepare(&request)).await??)
    }

    /// Commits a decided apply, with retries. `locks` are the target locks from the decision, if
    /// this process made it.
    pub(super) async fn commit_decided(
        &mut self,
        record: ApplyRecord,
        locks: Option<BoxedTargetLocks>,
    ) -> Result<ApplyOutcome> {
        // From here on only forward. An error leaves the decision on record for recovery.
        let (record, conflicts) = self.commit_with_retry(record, locks).await?;
        let actor = self.run.lease.lease().owner.to_string();
        if !conflicts.is_empty() {
            let mut apply = self
                .service
                .log(self.run)
                .stop_with_conflicts(record, &conflicts)
                .await?;
            // All or nothing: if no file was written, the whole apply can still be withdrawn.
            if !apply.has_written() {
                let mut reversal = self.service.reversal(self.run);
                apply = reversal.abort_unwritten(apply).await?;
            }
            let plan = self.run.plan.clone();
            if plan.position.state() != PlanState::Errored {
                return Ok(ApplyOutcome::Blocked { plan, conflicts });
            }
            return Ok(ApplyOutcome::Stopped {
                plan,
                apply,
                conflicts,
            });
        }
        let record = ApplyRecord {
            state: ApplyState::Done,
            ..record
        };
        let request = self
            .service
            .log(self.run)
            .owner_request(&record, Move::Apply);
        let ids = Arc::clone(&self.service.services.ids);
        let operation = self.service.services.operation("apply.confirm");
        let confirmed = self.run.lease.write(operation, move |tx| {
            // Lock order: the plan before its applies and sandboxes.
            tx.plan_for_update(record.plan_id)?;
            let record = update(tx, &record)?;
            let mut events = Vec::new();
            for sandbox in tx.sandboxes_of(record.plan_id)? {
                events.push(mark_sandbox_applied(tx, sandbox, &actor)?);
            }
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            tx.append(StreamId::Plan(record.plan_id), &events)?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        });
        let (plan, apply) = confirmed.await?;
        self.run.plan = plan.clone();
        Ok(ApplyOutcome::Applied { plan, apply })
    }

    /// Commits every part that is ready. Each outcome is recorded before the next part starts.
    pub(super) async fn commit(
        &mut self,
        record: ApplyRecord,
        locks: Option<BoxedTargetLocks>,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut locks = locks;
        let mut conflicts = Vec::new();
        for index in 0..record.resources.len() {
            if record.resources[index].state != ApplyPartState::Ready {
                continue;
            }
            let intent = required_intent(&record.resources[index])?;
            let resource = intent.resource.clone();
            let outcome = match self.commit_part(intent, &mut locks).await? {
                // A permanent error would fail again in every later command, so the part stops and
                // waits for the user.
                Err(error) if !error.is_temporary() => CommitOutcome::Stopped(StoppedCommit {
                    conflicts: vec![failure_conflict(&error, resource)],
                    written: Vec::new(),
                }),
                outcome => outcome?,
            };
            let part = &mut record.resources[index];
            // Obstacles and written paths are of the last try only.
            part.obstacles.clear();
            part.written.clear();
            match outcome {
                CommitOutcome::Done(applied) => end_part(part, applied),
                CommitOutcome::Stopped(stopped) => {
                    part.state = ApplyPartState::Stopped;
                    part.obstacles.clone_from(&stopped.conflicts);
                    conflicts.extend(stopped.conflicts);
                    part.written = stopped.written;
                }
            }
            record = self.service.log(self.run).save(record).await?;
        }
        Ok((record, conflicts))
    }
}

impl ApplyLog<'_> {
    /// Records the attempt before anything is done for it (law 9).
    pub(super) async fn record_intent(&self, record: ApplyRecord) -> Result<RecordedAttempt> {
        let actor = self.run.lease.lease().owner.to_string();
        self.run
            .lease
            .write(self.service.services.operation("apply.intend"), move |tx| {
                let now = tx.now()?;
                let mut record = ApplyRecord {
                    created_at: now,
                    updated_at: now,
                    ..record.clone()
                };
                // The store assigns the number, so two attempts cannot get the same one (law 3).
                record.number = tx.insert_apply(&record)?;
                let payload = ApplyIntended {
                    apply_id: record.id,
                    direction: record.direction,
                    destination: record.destination.clone(),
                };
                let event = new_event(&actor, &payload)?;
                let head = tx.append(StreamId::Plan(record.plan_id), &[event])?;
                Ok::<_, ApplyFailure>(RecordedAttempt {
                    record,
                    journal_hash: head.hash,
                })
            })
            .await
    }

    pub(super) async fn save(&self, record: ApplyRecord) -> Result<ApplyRecord> {
        self.run
            .lease
            .write(self.service.services.operation("apply.save"), move |tx| {
                let mut record = record.clone();
                record.updated_at = tx.now()?;
                record.version = tx.update_apply(&record)?;
                Ok::<_, ApplyFailure>(record)
            })
            .await
    }

    /// The point of no return: one commit that makes every intent durable and moves the plan past
    /// it. A cancel request locks the run while it writes its message, so it is either seen here or
    /// too late. Returns `None` if there is one.
    async fn decide(&mut self, record: ApplyRecord) -> Result<Option<ApplyRecord>> {
        let record = ApplyRecord {
            state: ApplyState::Decided,
            ..record
        };
        let request = self.owner_request(&record, Move::Decide);
        let ids = Arc::clone(&self.service.services.ids);
        let operation = self.service.services.operation("apply.decide");
        let decided = self.run.lease.write(operation, move |tx| {
            tx.plan_for_update(record.plan_id)?;
            // Read under the run's lock, which the fence of this write holds. A later cancel finds
            // the plan decided.
            if tx.pending_messages(record.plan_id, &[MessageKind::Cancel])? > 0 {
                return Ok(None);
            }
            let record = update(tx, &record)?;
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            let payload = ApplyDecided {
                apply_id: record.id,
                resources: record.resources.len() as u64,
            };
            let event = new_event(&request.actor, &payload)?;
            tx.append(StreamId::Plan(record.plan_id), &[event])?;
            Ok::<_, ApplyFailure>(Some((moved.plan().clone(), record)))
        });
        let Some((plan, record)) = decided.await? else {
            return Ok(None);
        };
        self.run.plan = plan;
        Ok(Some(record))
    }

    /// Records the conflicts and fails the plan.
    pub(super) async fn stop_with_conflicts(
        &mut self,
        record: ApplyRecord,
        conflicts: &[Conflict],
    ) -> Result<ApplyRecord> {
        let record = ApplyRecord {
            state: ApplyState::Stopped,
            ..record
        };
        let reason = join_conflicts(conflicts);
        let error_record = NewErrorRecord::new(ErrorCategory::TargetMoved, &reason);
        let request = PlanMoveRequest {
            reason: Some(reason),
            ..self.owner_request(&record, Move::Fail)
        };
        let (ids, conflicts) = (Arc::clone(&self.service.services.ids), conflicts.to_vec());
        let operation = self.service.services.operation("apply.stop");
        let stopped = self.run.lease.write(operation, move |tx| {
            tx.plan_for_update(record.plan_id)?;
            let record = update(tx, &record)?;
            record_error(tx, &*ids, record.plan_id, &error_record, &request.actor)?;
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            let payload = ApplyStopped {
                apply_id: record.id,
                conflicts: conflicts.clone(),
            };
            let event = new_event(&request.actor, &payload)?;
            tx.append(StreamId::Plan(record.plan_id), &[event])?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        });
        let (plan, record) = stopped.await?;
        self.run.plan = plan;
        Ok(record)
    }

    /// Removes the prepared parts; nothing of the user's was changed.
    pub(super) async fn abort_prepared(&mut self, record: ApplyRecord, reason: &str) -> Result<()> {
        self.abort_prepared_and_fail(record, reason, None).await
    }

    /// Like [`Self::abort_prepared`]. If `fails` is given, the same commit fails the plan.
    pub(super) async fn abort_prepared_and_fail(
        &mut self,
        record: ApplyRecord,
        reason: &str,
        fails: Option<&str>,
    ) -> Result<()> {
        let mut record = record;
        let mut uncollected = Vec::new();
        for part in &mut record.resources {
            match self.remove_prepared(part).await? {
                // Nothing of the user's was changed, so `gc` can remove our leftovers later.
                Err(error) if !error.is_temporary() => uncollected.push(error.to_string()),
                removed => removed?,
            }
            part.state = ApplyPartState::Aborted;
        }
        let payload = ApplyAborted {
            apply_id: record.id,
            reason: reason.to_owned(),
            uncollected,
        };
        let request = fails.map(|why| PlanMoveRequest {
            reason: Some(why.to_owned()),
            ..self.owner_request(&record, Move::Fail)
        });
        let record = ApplyRecord {
            state: ApplyState::Aborted,
            ..record
        };
        let (actor, ids) = (
            self.run.lease.lease().owner.to_string(),
            Arc::clone(&self.service.services.ids),
        );
        let operation = self.service.services.operation("apply.abort-prepared");
        let aborted = self.run.lease.write(operation, move |tx| {
            let mut plan = tx.plan_for_update(record.plan_id)?;
            update(tx, &record)?;
            if let Some(request) = &request {
                let moved = move_plan(tx, &*ids, request, RepeatPolicy::Refuse)?;
                plan = moved.plan().clone();
            }
            let event = new_event(&actor, &payload)?;
            tx.append(StreamId::Plan(record.plan_id), &[event])?;
            Ok::<_, ApplyFailure>(plan)
        });
        self.run.plan = aborted.await?;
        Ok(())
    }

    /// Removes the prepared data of one resource.
    async fn remove_prepared(&self, part: &ApplyPart) -> Result<TargetResult<()>> {
        let targets = Arc::clone(&self.service.targets);
        Ok(match part.intent.clone() {
            Some(intent) => spawn_blocking(move || targets.discard_prepared(&intent)).await?,
            // The process may have died between preparing the part and recording its intent.
            None => {
                let (id, sandbox) = (part.id, part.sandbox_id);
                let sandbox = self
                    .service
                    .services
                    .store
                    .read(move |tx| tx.sandbox(sandbox));
                let path = sandbox.await?.resource_path;
                spawn_blocking(move || targets.discard_orphaned(id, &path)).await?
            }
        })
    }

    pub(super) async fn record_state(
        &self,
        record: ApplyRecord,
        state: ApplyState,
        payload: impl EventPayload + Send + 'static,
    ) -> Result<ApplyRecord> {
        let actor = self.run.lease.lease().owner.to_string();
        let record = ApplyRecord { state, ..record };
        self.run
            .lease
            .write(self.service.services.operation("apply.end"), move |tx| {
                let record = update(tx, &record)?;
                let event = new_event(&actor, &payload)?;
                tx.append(StreamId::Plan(record.plan_id), &[event])?;
                Ok::<_, ApplyFailure>(record)
            })
            .await
    }

    pub(super) fn owner_request(&self, record: &ApplyRecord, requested: Move) -> PlanMoveRequest {
        PlanMoveRequest {
            plan: record.plan_id,
            requested,
            actor: self.run.lease.lease().owner.to_string(),
            reason: None,
        }
    }
}

pub(super) fn update(
    tx: &mut dyn Transaction,
    record: &ApplyRecord,
) -> Result<ApplyRecord, StoreError> {
    let mut record = record.clone();
    record.updated_at = tx.now()?;
    record.version = tx.update_apply(&record)?;
    Ok(record)
}

pub(super) fn mark_sandbox_applied(
    tx: &mut dyn Transaction,
    sandbox: SandboxRecord,
    actor: &str,
) -> Result<cleveragents_domain::NewEvent, StoreError> {
    change_sandbox_state(tx, sandbox, SandboxState::Applied, actor)
}

pub(super) fn new_part(id: ApplyId, sandbox: &SandboxRecord) -> ApplyPart {
    ApplyPart {
        id,
        sandbox_id: sandbox.id,
        state: ApplyPartState::Intended,
        intent: None,
        result: None,
        obstacles: Vec::new(),
        written: Vec::new(),
    }
}

/// Ends a part whose change is in its target.
pub(super) fn end_part(part: &mut ApplyPart, applied: AppliedResult) {
    let owns = part.intent.as_ref().is_none_or(|it| it.owns(&applied));
    if owns {
        part.state = ApplyPartState::Done;
        part.result = Some(applied);
    } else {
        // Unapply must not undo the commit of another program.
        part.state = ApplyPartState::Nothing;
        part.intent = None;
    }
}

/// Returns the intent of a part that is prepared.
pub(super) fn required_intent(part: &ApplyPart) -> Result<ApplyIntent, StoreError> {
    let missing = || StoreError::internal(format!("part {} of an apply has no intent", part.id));
    part.intent.as_deref().cloned().ok_or_else(missing)
}

/// Converts a target's error into a conflict.
pub(super) fn failure_conflict(
    error: &TargetError,
    resource: impl Into<Option<AbsolutePath>>,
) -> Conflict {
    Conflict {
        path: None,
        place: resource.into(),
        reason: ConflictReason::Failed {
            reason: error.to_string(),
        },
    }
}

/// Returns the error of validations that failed on a merge with a target.
fn failed_validations(conflicts: &[Conflict]) -> Option<NewErrorRecord> {
    let failed = |it: &&Conflict| matches!(it.reason, ConflictReason::Validations { .. });
    let failed: Vec<Conflict> = conflicts.iter().filter(failed).cloned().collect();
    let message = join_conflicts(&failed);
    (!failed.is_empty()).then(|| NewErrorRecord::new(ErrorCategory::Validation, message))
}

/// Joins the conflicts into one line.
pub(super) fn join_conflicts(conflicts: &[Conflict]) -> String {
    let texts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
