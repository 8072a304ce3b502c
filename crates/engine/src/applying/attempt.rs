//! One attempt: prepared, decided, carried out, confirmed.

use std::sync::Arc;

use cleveragents_domain::application::{ApplyPart, ApplyRecord, ApplyState, Direction, PartState};
use cleveragents_domain::id::ApplyId;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{
    AbsolutePath, ErrorCategory, EventKind, MessageKind, Move, Plan, State, StreamId, Timestamp,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::error::{ApplyFailure, Result};
use super::lock::{Locks, PreparedAll};
use super::{ApplyAsk, ApplyOutcome, ApplyService};
use crate::execution::change_sandbox;
use crate::journal::event;
use crate::lifecycle::{Moved, Repeats, Request, move_plan};
use crate::ports::sandbox::CommitText;
use crate::ports::targets::{
    ApplyIntent, ApplyRequest, Author, Carried, Conflict, ConflictReason, Prepared,
    RequestedChange, Stopped, TargetError, TargetResult,
};
use crate::ports::{StoreError, Unit};
use crate::recovery::{Trouble, record_error};
use crate::runs::RunLease;

impl ApplyService {
    /// Prepares every target, decides, and goes forward.
    pub(super) async fn begin(
        &self,
        run: &RunLease,
        plan: &Plan,
        ask: &ApplyAsk,
    ) -> Result<ApplyOutcome> {
        let id = plan.identity.plan_id;
        let read = move |unit: &mut dyn Unit| unit.sandboxes_of(id);
        let sandboxes = self.executor.store.read(read).await?;
        let gone = self.unusable(&sandboxes).await?;
        if !gone.is_empty() {
            let reason = listed(&gone);
            let plan = self.executor.lifecycle.constrain(run, &reason).await?;
            let conflicts = gone;
            return Ok(ApplyOutcome::Blocked { plan, conflicts });
        }
        let mut requests = Vec::with_capacity(sandboxes.len());
        for sandbox in &sandboxes {
            requests.push(self.request(plan, sandbox, ask).await?);
        }
        let parts = sandboxes.iter().zip(&requests);
        let parts = parts.map(|(sandbox, request)| part(request.id, sandbox));
        let destination = value(&ask.destination)?;
        let record = self.new_record(plan, Direction::Apply, destination, parts.collect());
        let record = self.intend(run, record).await?;
        let (record, locks) = match self.prepare_and_lock(run, record, &requests).await? {
            PreparedAll::Locked(record, locks) => (record, locks),
            PreparedAll::Blocked(record, conflicts) => {
                let reason = listed(&conflicts);
                self.take_back(run, record, &reason).await?;
                let plan = self.executor.lifecycle.constrain(run, &reason).await?;
                return Ok(ApplyOutcome::Blocked { plan, conflicts });
            }
        };
        match self.decide(run, record.clone()).await? {
            Decided::Yes(record) => self.go_forward(run, *record, Some(locks)).await,
            Decided::AskedToStop => {
                drop(locks);
                let reason = "somebody asked to cancel before the decision";
                self.take_back(run, record, reason).await?;
                // The message is taken, and the plan cancelled, when the run is given back.
                let plan = self.executor.lifecycle.plan(id).await?;
                Ok(ApplyOutcome::Cancelled(plan))
            }
        }
    }

    async fn request(
        &self,
        plan: &Plan,
        sandbox: &SandboxRecord,
        ask: &ApplyAsk,
    ) -> Result<ApplyRequest> {
        let missing = || StoreError::internal(format!("sandbox {} has no tree", sandbox.id));
        let author = match &ask.author {
            Some(author) => Some(author.clone()),
            None => {
                let (targets, path) = (Arc::clone(&self.targets), sandbox.resource_path.clone());
                spawn_blocking(move || targets.author(&path)).await??
            }
        };
        Ok(ApplyRequest {
            id: ApplyId::new(self.executor.ids.next()),
            plan: plan.identity.plan_id,
            resource: sandbox.resource_path.clone(),
            resource_type: sandbox.resource_type,
            change: RequestedChange::Result {
                sandbox: sandbox.id,
                from: sandbox.base_tree.clone().ok_or_else(missing)?,
                to: sandbox.tree.clone().ok_or_else(missing)?,
                base_commit: sandbox.base_commit.clone(),
            },
            destination: ask.destination.clone(),
            commit: self.commit_text(plan, author, &plan.brief.description),
        })
    }

    pub(super) fn commit_text(
        &self,
        plan: &Plan,
        author: Option<Author>,
        subject: &str,
    ) -> CommitText {
        let author = author.unwrap_or_else(|| Author {
            name: "CleverAgents".to_owned(),
            email: "agents@localhost".to_owned(),
        });
        CommitText {
            name: author.name,
            email: author.email,
            seconds: self.executor.clock.now().as_micros() / 1_000_000,
            message: format!("{subject}\n\nPlan: {}\n", plan.name),
        }
    }

    pub(super) async fn prepare(&self, request: ApplyRequest) -> Result<Prepared> {
        let targets = Arc::clone(&self.targets);
        Ok(spawn_blocking(move || targets.prepare(&request)).await??)
    }

    pub(super) fn new_record(
        &self,
        plan: &Plan,
        direction: Direction,
        destination: Value,
        resources: Vec<ApplyPart>,
    ) -> ApplyRecord {
        ApplyRecord {
            id: ApplyId::new(self.executor.ids.next()),
            plan_id: plan.identity.plan_id,
            number: 0,
            direction,
            node: self.executor.node.clone(),
            destination,
            state: ApplyState::Preparing,
            resources,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            version: 1,
        }
    }

    /// Says that an attempt is made, before anything is done for it.
    pub(super) async fn intend(&self, run: &RunLease, record: ApplyRecord) -> Result<ApplyRecord> {
        let actor = run.lease().owner.to_string();
        run.write(self.executor.operation("apply.intend"), move |unit| {
            let now = unit.now()?;
            let mut record = ApplyRecord {
                created_at: now,
                updated_at: now,
                ..record.clone()
            };
            record.number = unit.insert_apply(&record)?;
            let told = json!({
                "apply_id": record.id,
                "direction": record.direction,
                "destination": record.destination,
            });
            let told = event(EventKind::ApplyIntended, &actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>(record)
        })
        .await
    }

    pub(super) async fn save(&self, run: &RunLease, record: ApplyRecord) -> Result<ApplyRecord> {
        run.write(self.executor.operation("apply.save"), move |unit| {
            let mut record = record.clone();
            record.updated_at = unit.now()?;
            record.version = unit.update_apply(&record)?;
            Ok::<_, ApplyFailure>(record)
        })
        .await
    }

    /// The point of no return: one commit in which every intent is durable and the plan has passed
    /// it. Who asks for a cancel holds the run meanwhile, so it is either seen here or too late.
    async fn decide(&self, run: &RunLease, record: ApplyRecord) -> Result<Decided> {
        let record = ApplyRecord {
            state: ApplyState::Decided,
            ..record
        };
        let request = self.owner_request(run, &record, Move::Decide);
        let ids = Arc::clone(&self.executor.ids);
        run.write(self.executor.operation("apply.decide"), move |unit| {
            unit.plan_for_update(record.plan_id)?;
            if unit.pending_messages(record.plan_id, &[MessageKind::Cancel])? > 0 {
                return Ok(Decided::AskedToStop);
            }
            let record = update(unit, &record)?;
            move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            let told = json!({ "apply_id": record.id, "resources": record.resources.len() });
            let told = event(EventKind::ApplyDecided, &request.actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>(Decided::Yes(Box::new(record)))
        })
        .await
    }

    /// Carries out what was decided, as often as it takes; first under the locks it was decided
    /// with, if this process did.
    pub(super) async fn go_forward(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        locks: Option<Locks>,
    ) -> Result<ApplyOutcome> {
        let (record, conflicts) = self.carry_on(run, record, locks).await?;
        let actor = run.lease().owner.to_string();
        if !conflicts.is_empty() {
            let reason = listed(&conflicts);
            let (plan, apply) = self.stop(run, record, (&conflicts, &reason)).await?;
            let (plan, apply) = match apply.has_written() {
                true => (plan, apply),
                false => self.abort_unwritten(run, plan, apply).await?,
            };
            if plan.position.state() != State::Errored {
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
        let request = self.owner_request(run, &record, Move::Apply);
        let ids = Arc::clone(&self.executor.ids);
        run.write(self.executor.operation("apply.confirm"), move |unit| {
            unit.plan_for_update(record.plan_id)?;
            let record = update(unit, &record)?;
            let mut events = Vec::new();
            for sandbox in unit.sandboxes_of(record.plan_id)? {
                events.push(applied_sandbox(unit, sandbox, &actor)?);
            }
            let moved: Moved = move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            unit.append(StreamId::Plan(record.plan_id), &events)?;
            Ok::<_, ApplyFailure>((moved, record))
        })
        .await
        .map(|(moved, apply)| ApplyOutcome::Applied {
            plan: moved.plan().clone(),
            apply,
        })
    }

    /// Puts on record that somebody else's change stands in the way, and fails the plan for it.
    pub(super) async fn stop(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        (conflicts, reason): (&[Conflict], &str),
    ) -> Result<(Plan, ApplyRecord)> {
        let record = ApplyRecord {
            state: ApplyState::Stopped,
            ..record
        };
        let request = Request {
            reason: Some(reason.to_owned()),
            ..self.owner_request(run, &record, Move::Fail)
        };
        let trouble = Trouble::plain(ErrorCategory::TargetMoved, reason);
        let (ids, conflicts) = (Arc::clone(&self.executor.ids), conflicts.to_vec());
        run.write(self.executor.operation("apply.stop"), move |unit| {
            unit.plan_for_update(record.plan_id)?;
            let record = update(unit, &record)?;
            record_error(unit, &*ids, record.plan_id, &trouble, &request.actor)?;
            let moved = move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            let told = json!({ "apply_id": record.id, "conflicts": conflicts });
            let told = event(EventKind::ApplyStopped, &request.actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        })
        .await
    }

    /// Makes every intent true that is not yet; each answer is on record before the next begins.
    pub(super) async fn carry_out(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        locks: Option<Locks>,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut locks = locks;
        let mut conflicts = Vec::new();
        for place in 0..record.resources.len() {
            if record.resources[place].state != PartState::Ready {
                continue;
            }
            let intent: ApplyIntent = read(record.resources[place].intent.clone())?;
            let resource = intent.resource.clone();
            let carried = match self.carry_out_part(intent, &mut locks).await? {
                // Trying again at every command would never end: it waits for somebody instead.
                Err(error) if !error.is_temporary() => Carried::Stopped(Stopped {
                    conflicts: vec![failure(&error, resource)],
                    written: Vec::new(),
                }),
                carried => carried?,
            };
            let part = &mut record.resources[place];
            part.obstacles.clear();
            part.written.clear();
            match carried {
                Carried::Done(applied) => {
                    part.state = PartState::Done;
                    part.result = Some(value(&applied)?);
                }
                Carried::Stopped(stopped) => {
                    part.state = PartState::Stopped;
                    for conflict in &stopped.conflicts {
                        part.obstacles.push(value(conflict)?);
                    }
                    conflicts.extend(stopped.conflicts);
                    part.written = stopped.written;
                }
            }
            record = self.save(run, record).await?;
        }
        Ok((record, conflicts))
    }

    /// Undoes what was prepared; nothing of the user's was changed.
    pub(super) async fn take_back(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        reason: &str,
    ) -> Result<ApplyRecord> {
        self.take_back_and_fail(run, record, reason, None).await
    }

    /// The same, and in one commit with it the plan fails, if it is said why.
    pub(super) async fn take_back_and_fail(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        reason: &str,
        fails: Option<&str>,
    ) -> Result<ApplyRecord> {
        let mut record = record;
        let mut uncollected = Vec::new();
        for part in &mut record.resources {
            match self.remove_prepared(part).await? {
                // Nothing of the user's is changed, so what is left of ours waits for `gc`.
                Err(error) if !error.is_temporary() => uncollected.push(error.to_string()),
                removed => removed?,
            }
            part.state = PartState::TakenBack;
        }
        let mut told = json!({ "apply_id": record.id, "reason": reason });
        if !uncollected.is_empty() {
            told["uncollected"] = json!(uncollected);
        }
        let request = fails.map(|why| Request {
            reason: Some(why.to_owned()),
            ..self.owner_request(run, &record, Move::Fail)
        });
        let record = ApplyRecord {
            state: ApplyState::TakenBack,
            ..record
        };
        let (actor, ids) = (
            run.lease().owner.to_string(),
            Arc::clone(&self.executor.ids),
        );
        run.write(self.executor.operation("apply.take-back"), move |unit| {
            unit.plan_for_update(record.plan_id)?;
            let record = update(unit, &record)?;
            if let Some(request) = &request {
                move_plan(unit, &*ids, request, Repeats::AreRefused)?;
            }
            let told = event(EventKind::ApplyTakenBack, &actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>(record)
        })
        .await
    }

    /// Removes what was prepared for one resource.
    async fn remove_prepared(&self, part: &ApplyPart) -> Result<TargetResult<()>> {
        let targets = Arc::clone(&self.targets);
        Ok(match part.intent.clone() {
            Some(intent) => {
                let intent: ApplyIntent = read(Some(intent))?;
                spawn_blocking(move || targets.take_back(&intent)).await?
            }
            // Its preparation may have been killed before anybody had its intent.
            None => {
                let (id, sandbox) = (part.id, part.sandbox_id);
                let sandbox = self.executor.store.read(move |unit| unit.sandbox(sandbox));
                let path = sandbox.await?.resource_path;
                spawn_blocking(move || targets.give_up(id, &path)).await?
            }
        })
    }

    pub(super) async fn end(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        state: ApplyState,
        (kind, told): (EventKind, Value),
    ) -> Result<ApplyRecord> {
        let actor = run.lease().owner.to_string();
        let record = ApplyRecord { state, ..record };
        run.write(self.executor.operation("apply.end"), move |unit| {
            let record = update(unit, &record)?;
            let told = event(kind.clone(), &actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>(record)
        })
        .await
    }

    pub(super) fn owner_request(
        &self,
        run: &RunLease,
        record: &ApplyRecord,
        asked: Move,
    ) -> Request {
        Request {
            plan: record.plan_id,
            asked,
            actor: run.lease().owner.to_string(),
            reason: None,
        }
    }
}

/// Whether the point of no return was passed.
#[derive(Debug, Serialize, Deserialize)]
enum Decided {
    Yes(Box<ApplyRecord>),
    AskedToStop,
}

pub(super) fn update(unit: &mut dyn Unit, record: &ApplyRecord) -> Result<ApplyRecord, StoreError> {
    let mut record = record.clone();
    record.updated_at = unit.now()?;
    record.version = unit.update_apply(&record)?;
    Ok(record)
}

pub(super) fn applied_sandbox(
    unit: &mut dyn Unit,
    sandbox: SandboxRecord,
    actor: &str,
) -> Result<cleveragents_domain::NewEvent, StoreError> {
    change_sandbox(unit, sandbox, SandboxState::Applied, actor)
}

pub(super) fn part(id: ApplyId, sandbox: &SandboxRecord) -> ApplyPart {
    ApplyPart {
        id,
        sandbox_id: sandbox.id,
        state: PartState::Meant,
        intent: None,
        result: None,
        obstacles: Vec::new(),
        written: Vec::new(),
    }
}

pub(super) fn value(of: &impl Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(of).map_err(StoreError::internal)
}

pub(super) fn read<T: DeserializeOwned>(value: Option<Value>) -> Result<T, StoreError> {
    serde_json::from_value(value.unwrap_or(Value::Null)).map_err(StoreError::internal)
}

/// An error of one target as what stands in the way there.
pub(super) fn failure(error: &TargetError, resource: impl Into<Option<AbsolutePath>>) -> Conflict {
    Conflict {
        path: None,
        place: resource.into(),
        reason: ConflictReason::Failed {
            reason: error.to_string(),
        },
    }
}

/// What stands in the way, in one line.
pub(super) fn listed(conflicts: &[Conflict]) -> String {
    let texts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
