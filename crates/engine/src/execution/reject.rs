//! Taking a part out of a plan's result, at a human's word.
//!
//! The word is on record before anything is done, as a decision with its reason, a checkpoint of
//! how things stood and a call that begins. Then the files are set, and the call ends with what it
//! changed. From that moment on nothing that was validated before counts: what gates is asked
//! again, and Apply refuses until it was.

use std::sync::Arc;

use cleveragents_domain::changeset::NewChange;
use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{AttachmentId, DecisionId, PlanId, ToolCallId};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{
    Decision, DecisionType, EventKind, NamespacedName, NewDecision, Operation, Phase, Plan,
    PointOfNoReturn, ResourcePath, State, StreamId, TreeId, ValidationMode, ValidationResult,
    ValidationSummary,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use super::checkpoints::{Moment, make};
use super::context::Changeset;
use super::error::ExecutionError;
use super::executor::Executor;
use super::patch::{FilePatch, files};
use super::results::{PlanDiff, ResourceDiff, Results, ResultsError, Selection, names};
use super::workspace::{Inside, Seat, Workspace};
use crate::journal::event;
use crate::lifecycle::LifecycleError;
use crate::ports::sandbox::{DiffChange, NetChange, Part};
use crate::ports::stop::Stop;
use crate::ports::{Slots, StoreError, Unit};
use crate::runs::{Outcome, RunLease};

/// What a human asks for.
#[derive(Debug, Clone)]
pub struct Rejection {
    pub plan: PlanId,
    /// Which of several resources is meant.
    pub resource: Option<NamespacedName>,
    /// The file, percent-encoded as it is shown, or as it is.
    pub path: String,
    /// Which of its hunks, counted from 1; all of it if nothing is said.
    pub hunk: Option<u32>,
    pub why: String,
    /// Who acts, for the journal.
    pub actor: String,
}

/// What a rejection did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    pub plan: Plan,
    pub resource: NamespacedName,
    pub path: ResourcePath,
    /// Nothing if the whole file was taken out.
    pub hunk: Option<u32>,
    /// How things stood before; going back to it undoes this.
    pub checkpoint: Checkpoint,
    /// The paths that changed.
    pub changes: Vec<ResourcePath>,
    pub validation: ValidationSummary,
}

/// Why nothing was rejected.
#[derive(Debug, thiserror::Error)]
pub enum RejectError {
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("a rejection needs a reason")]
    NoReason,
    #[error("{path} has no hunk {hunk}")]
    NoHunk {
        path: ResourcePath,
        hunk: u32,
        hunks: usize,
    },
    #[error("several resources of the plan have a change of this path")]
    Several { resources: Vec<NamespacedName> },
    #[error("plan {} is at {}: there is no result to reject parts of", plan.name, plan.position)]
    NotNow { plan: Box<Plan> },
}

impl From<StoreError> for RejectError {
    fn from(error: StoreError) -> Self {
        Self::Execution(error.into())
    }
}

type Result<T, E = RejectError> = std::result::Result<T, E>;

/// What is taken out of which sandbox.
#[derive(Debug, Clone)]
struct Target {
    record: SandboxRecord,
    path: ResourcePath,
    hunk: Option<u32>,
    part: Part,
}

/// A rejection that was put on record.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Begun {
    call: ToolCallRecord,
    checkpoint: Checkpoint,
}

impl Executor {
    /// Takes a file, or one hunk of it, out of the plan's result, and validates what is left. The
    /// plan stays where it is.
    pub async fn reject(&self, ask: &Rejection) -> Result<Rejected> {
        if ask.why.trim().is_empty() {
            return Err(RejectError::NoReason);
        }
        let plan = self.lifecycle.plan(ask.plan).await;
        let plan = has_result(plan.map_err(ExecutionError::from)?)?;
        let claim = self
            .runs
            .claim(ask.plan, plan.position.phase(), Slots::Shared);
        let run = match claim.await? {
            Outcome::Won(run) => run,
            Outcome::Held(holder) => {
                return Err(ExecutionError::from(LifecycleError::Owned { holder }).into());
            }
            Outcome::NoSlot { running } => {
                let reason = format!(
                    "no slot is needed, yet {} plans have them all",
                    running.len()
                );
                return Err(ExecutionError::Lost { reason }.into());
            }
        };
        let alive = run.keep_alive();
        let done = self.reject_as_owner(&run, ask).await;
        drop(alive);
        let lost = matches!(&done, Err(RejectError::Execution(error)) if error.is_lease_lost());
        if !lost {
            let given = self.lifecycle.give_back(run).await;
            given.map_err(ExecutionError::from)?;
        }
        done
    }

    async fn reject_as_owner(&self, run: &RunLease, ask: &Rejection) -> Result<Rejected> {
        let plan = self.lifecycle.plan(ask.plan).await;
        // Whoever moved it meanwhile had its run.
        let plan = has_result(plan.map_err(ExecutionError::from)?)?;
        self.undo_unfinished(run).await?;
        let results = Results::new(self.store.clone(), Arc::clone(&self.sandboxes));
        let selection = Selection {
            resource: ask.resource.clone(),
            paths: Vec::new(),
        };
        let diff = results.diff(ask.plan, selection).await?;
        let target = target(&diff, ask)?;
        let (tree, changes) = self.work_out(&target).await?;
        let round = self.next_round(&plan).await?;
        let context = self.context(run);
        let changeset = context
            .start_changeset(target.record.id, plan.attempt, None)
            .await?;
        let begun = self.begin_rejection(run, (&plan, ask), &target).await?;
        self.set_files(target.record.clone(), tree.clone()).await?;
        let ended = RejectionEnd {
            begun: begun.clone(),
            changeset: changeset.clone(),
            changes: new_changes(&begun.call, &changes),
            tree,
            stale: self.stale(&plan, &target, round),
            round,
            told: json!({ "path": target.path, "hunk": target.hunk, "why": ask.why }),
            actor: ask.actor.clone(),
        };
        run.write(self.operation("reject.end"), move |unit| {
            Ok::<_, StoreError>(ended.write(unit)?)
        })
        .await?;
        changeset.close().await?;
        let validation = self.validate_again(run, &plan, round).await?;
        Ok(Rejected {
            resource: target.record.resource_name,
            path: target.path,
            hunk: target.hunk,
            checkpoint: begun.checkpoint,
            changes: changes.into_iter().map(|it| it.path).collect(),
            validation,
            plan,
        })
    }

    /// The tree without what is rejected, and what that changes; nothing is touched.
    async fn work_out(&self, target: &Target) -> Result<(TreeId, Vec<NetChange>)> {
        let (sandboxes, target) = (Arc::clone(&self.sandboxes), target.clone());
        let worked = spawn_blocking(move || {
            let record = &target.record;
            let (Some(base), Some(now)) = (&record.base_tree, &record.tree) else {
                let reason = format!("sandbox {} has no tree on record", record.id);
                return Err(ExecutionError::Lost { reason });
            };
            let sandbox = sandboxes.open(record.id)?;
            let tree = sandbox.without(base, now, &target.part)?;
            let changes = sandbox.net_changes(now, &tree)?;
            Ok((tree, changes))
        });
        Ok(worked.await.map_err(ExecutionError::from)??)
    }

    async fn set_files(&self, record: SandboxRecord, tree: TreeId) -> Result<()> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let set = spawn_blocking(move || sandboxes.open(record.id)?.restore(&tree));
        let set = set.await.map_err(ExecutionError::from)?;
        Ok(set.map_err(ExecutionError::from)?)
    }

    /// The human's word: a decision, a checkpoint and a call that begins.
    async fn begin_rejection(
        &self,
        run: &RunLease,
        (plan, ask): (&Plan, &Rejection),
        target: &Target,
    ) -> Result<Begun> {
        let beginning = RejectionBegin {
            executor: self.clone(),
            plan: plan.clone(),
            ask: ask.clone(),
            target: target.clone(),
            call: ToolCallId::new(self.ids.next()),
            decision: DecisionId::new(self.ids.next()),
        };
        run.write(self.operation("reject.begin"), move |unit| {
            Ok::<_, RejectError>(beginning.write(unit)?)
        })
        .await
    }

    /// The round of validations after the last one of this attempt.
    async fn next_round(&self, plan: &Plan) -> Result<u32> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let newest = self
            .store
            .read(move |unit| unit.newest_validation_run(id, attempt))
            .await?;
        let summary: ValidationSummary = match newest {
            Some(stored) => serde_json::from_value(stored).map_err(StoreError::internal)?,
            None => return Ok(1),
        };
        let last = summary.results.iter().map(|it| it.attempt).max();
        Ok(last.unwrap_or(1).saturating_add(1))
    }

    /// What stands in the way of Apply until everything was validated again.
    fn stale(&self, plan: &Plan, target: &Target, round: u32) -> ValidationSummary {
        ValidationSummary::new(vec![ValidationResult {
            validation: tool_name(),
            mode: ValidationMode::Required,
            passed: false,
            message: Some(format!(
                "a part of {} was rejected, and nothing was validated since: go back to the \
                 checkpoint before it",
                target.path
            )),
            data: None,
            duration_ms: 0,
            attempt: round,
            attachment_id: AttachmentId::new(self.ids.next()),
            attachment_resource: target.record.resource_name.clone(),
            attachment_scope: AttachmentScopeKind::Plan,
            attachment_scope_target: Some(plan.identity.plan_id.to_string()),
        }])
    }

    /// Asks everything that gates about what is left, and publishes that.
    async fn validate_again(
        &self,
        run: &RunLease,
        plan: &Plan,
        round: u32,
    ) -> Result<ValidationSummary> {
        let records = self.sandboxes_of(plan.identity.plan_id).await?;
        let mut workspace = Workspace {
            seats: Vec::with_capacity(records.len()),
            warnings: Vec::new(),
        };
        for record in &records {
            let Some(tree) = record.tree.clone() else {
                continue;
            };
            self.set_files(record.clone(), tree.clone()).await?;
            let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
            let opened = spawn_blocking(move || sandboxes.open(id)).await;
            let sandbox = opened.map_err(ExecutionError::from)?;
            workspace.seats.push(Seat {
                id,
                resource: record.resource_name.clone(),
                gate: Arc::new(RwLock::new(Inside {
                    sandbox: sandbox.map_err(ExecutionError::from)?,
                    tree,
                })),
            });
        }
        let summary = self
            .validate_once(plan, &workspace, round, &Stop::new())
            .await?;
        drop(workspace);
        for record in &records {
            self.publish(plan, record).await?;
        }
        self.store_summary(run, plan, round, &summary).await?;
        Ok(summary)
    }
}

/// The plan, if it has a result that is not applied and that nobody works on.
fn has_result(plan: Plan) -> Result<Plan> {
    let position = plan.position;
    let has = match position.phase() {
        Phase::Strategize => false,
        Phase::Execute => matches!(position.state(), State::Complete | State::Constrained),
        Phase::Apply => {
            position.point_of_no_return() == PointOfNoReturn::Ahead
                && matches!(
                    position.state(),
                    State::Queued | State::Constrained | State::Errored
                )
        }
    };
    match has {
        true => Ok(plan),
        false => Err(RejectError::NotNow {
            plan: Box::new(plan),
        }),
    }
}

/// What is meant, in the difference as it is.
fn target(diff: &PlanDiff, ask: &Rejection) -> Result<Target> {
    let names = names(&ask.path);
    let is_meant = |file: &FilePatch<'_>| {
        let old = file.file.renamed_from.as_ref();
        names.contains(&file.file.path) || old.is_some_and(|old| names.contains(old))
    };
    let mut found: Vec<(&ResourceDiff, FilePatch<'_>)> = Vec::new();
    for one in &diff.resources {
        let patches = files(&one.diff).map_err(ResultsError::from)?;
        found.extend(patches.into_iter().find(is_meant).map(|file| (one, file)));
    }
    let (one, file) = match found.as_slice() {
        [one] => one,
        [] => {
            let all = diff.resources.iter().flat_map(|it| &it.diff.files);
            return Err(ResultsError::NotChanged {
                typed: ask.path.clone(),
                changed: all.map(|file| file.path.clone()).collect(),
            }
            .into());
        }
        several => {
            let names = several.iter().map(|(it, _)| &it.sandbox.resource_name);
            return Err(RejectError::Several {
                resources: names.cloned().collect(),
            });
        }
    };
    let (hunk, part) = part(file, ask.hunk)?;
    Ok(Target {
        record: one.sandbox.clone(),
        path: file.file.path.clone(),
        hunk,
        part,
    })
}

/// The part of a file that is meant. What has only one hunk because it is new or gone goes as a
/// whole.
fn part(file: &FilePatch<'_>, hunk: Option<u32>) -> Result<(Option<u32>, Part)> {
    let stat = file.file;
    let whole = || {
        let paths = stat.renamed_from.iter().chain([&stat.path]);
        Part::Paths(paths.cloned().collect())
    };
    let Some(number) = hunk else {
        return Ok((None, whole()));
    };
    let place = usize::try_from(number)
        .ok()
        .and_then(|it| it.checked_sub(1));
    let Some(hunk) = place.and_then(|place| file.hunks.get(place)) else {
        return Err(RejectError::NoHunk {
            path: stat.path.clone(),
            hunk: number,
            hunks: file.hunks.len(),
        });
    };
    match stat.change {
        DiffChange::Added | DiffChange::Deleted | DiffChange::Retyped => Ok((None, whole())),
        DiffChange::Modified | DiffChange::Renamed => match file.only(hunk) {
            Some(patch) => Ok((Some(number), Part::Patch(patch))),
            None => Ok((None, whole())),
        },
    }
}

struct RejectionBegin {
    executor: Executor,
    plan: Plan,
    ask: Rejection,
    target: Target,
    call: ToolCallId,
    decision: DecisionId,
}

impl RejectionBegin {
    fn write(&self, unit: &mut dyn Unit) -> std::result::Result<Begun, StoreError> {
        let (plan, actor) = (&self.plan, self.ask.actor.as_str());
        let id = plan.identity.plan_id;
        let mut events = Vec::new();
        let decision = self.decide(unit)?;
        events.extend(decision);
        let tree = self.target.record.tree.clone();
        let call = unit.begin_tool_call(&NewToolCall {
            id: self.call,
            plan_id: id,
            attempt: plan.attempt,
            step: None,
            turn: 1,
            slot: 1,
            tool: tool_name(),
            actor: user_name(),
            sandbox_id: self.target.record.id,
            input: json!({
                "path": self.target.path,
                "hunk": self.target.hunk,
                "why": self.ask.why,
            }),
            tree_before: tree.ok_or_else(|| StoreError::internal("a sandbox without a tree"))?,
        })?;
        let moment = Moment {
            plan,
            trigger: CheckpointTrigger::ToolWrite,
            step: plan.last_completed_step,
            call_number: call.number - 1,
            decision_id: plan.decision_root_id.map(|_| self.decision),
            label: format!("before rejecting {}", self.shown()),
        };
        let (ids, policy) = (&*self.executor.ids, &self.executor.policy.checkpoints);
        let (checkpoint, made) = make(unit, ids, policy, &moment, actor)?;
        events.push(made);
        let invoked = json!({
            "tool_call_id": call.call.id,
            "number": call.number,
            "tool": call.call.tool,
            "actor": call.call.actor,
            "step": call.call.step,
            "turn": call.call.turn,
            "sandbox_id": call.call.sandbox_id,
            "input": call.call.input,
        });
        events.push(event(EventKind::ToolInvoked, actor, &invoked)?);
        unit.append(StreamId::Plan(id), &events)?;
        Ok(Begun { call, checkpoint })
    }

    fn shown(&self) -> String {
        match self.target.hunk {
            Some(hunk) => format!("hunk {hunk} of {}", self.target.path),
            None => self.target.path.to_string(),
        }
    }

    /// What was said stands in the plan's tree, for whoever tries again.
    fn decide(
        &self,
        unit: &mut dyn Unit,
    ) -> std::result::Result<Option<cleveragents_domain::NewEvent>, StoreError> {
        let Some(root) = self.plan.decision_root_id else {
            return Ok(None);
        };
        let new = NewDecision {
            plan_id: self.plan.identity.plan_id,
            parent: Some(root),
            decision_type: DecisionType::UserIntervention,
            phase: self.plan.position.phase(),
            question: format!("Why is {} rejected?", self.shown()),
            chosen: self.ask.why.clone(),
            rationale: format!("{} said so.", self.ask.actor),
        };
        let mut decision = Decision::new(new, self.decision, unit.now()?);
        decision.sequence_number = unit.insert_decision(&decision)?;
        event(EventKind::DecisionCreated, &self.ask.actor, &decision).map(Some)
    }
}

struct RejectionEnd {
    begun: Begun,
    changeset: Changeset,
    changes: Vec<NewChange>,
    tree: TreeId,
    stale: ValidationSummary,
    round: u32,
    told: serde_json::Value,
    actor: String,
}

impl RejectionEnd {
    fn write(&self, unit: &mut dyn Unit) -> std::result::Result<(), StoreError> {
        let call = &self.begun.call.call;
        let (plan, attempt) = (call.plan_id, call.attempt);
        let end = ToolCallEnd {
            state: ToolCallState::Completed,
            output: Some(json!({ "changes": self.changes.len() })),
            error: None,
            tree_after: self.tree.clone(),
        };
        let ended = unit.end_tool_call(call.id, &end)?;
        let mut sandbox = unit.sandbox(call.sandbox_id)?;
        sandbox.tree = Some(self.tree.clone());
        sandbox.updated_at = unit.now()?;
        unit.update_sandbox(&sandbox)?;
        let stale = serde_json::to_value(&self.stale).map_err(StoreError::internal)?;
        unit.put_validation_run(plan, attempt, self.round, &stale)?;
        let (_, mut events) = self.changeset.record_in(unit, &self.actor, &self.changes)?;
        events.push(event(EventKind::ChangeRejected, &self.actor, &self.told)?);
        let told = json!({
            "tool_call_id": call.id,
            "number": ended.number,
            "tool": call.tool,
            "changes": self.changes.len(),
            "tree": self.tree,
        });
        events.push(event(EventKind::ToolCompleted, &self.actor, &told)?);
        unit.append(StreamId::Plan(plan), &events)?;
        Ok(())
    }
}

fn new_changes(call: &ToolCallRecord, changes: &[NetChange]) -> Vec<NewChange> {
    let change = |it: &NetChange| NewChange {
        path: it.path.clone(),
        operation: match (&it.before, &it.after) {
            (None, _) => Operation::Create,
            (Some(_), None) => Operation::Delete,
            (Some(old), Some(new)) if old.hash == new.hash => Operation::Mode,
            (Some(_), Some(_)) => Operation::Modify,
        },
        before: it.before.clone(),
        after: it.after.clone(),
        tool_call_id: call.call.id,
        call_number: call.number,
        actor: call.call.actor.clone(),
        step: None,
    };
    changes.iter().map(change).collect()
}

/// The name under which rejections are on record beside the calls of tools.
fn tool_name() -> NamespacedName {
    NamespacedName::built_in("reject")
}

fn user_name() -> NamespacedName {
    NamespacedName::built_in("user")
}
