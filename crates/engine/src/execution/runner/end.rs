//! After a call: its outcome, its changes and the new tree, in one transaction.

use cleveragents_domain::changeset::NewChange;
use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{ErrorCategory, EventKind, NewEvent, Plan, StreamId, TreeId};
use serde_json::{Value, json};

use super::{CallOutcome, CallOutput, CompletedCall, Place, Ran, ToolRunner};
use crate::execution::checkpoints::{Moment, keep};
use crate::execution::context::Changeset;
use crate::execution::error::{ExecutionError, Result};
use crate::execution::refused::REFUSED;
use crate::journal::event;
use crate::ports::sandbox::FileChange;
use crate::ports::tools::ToolFailure;
use crate::ports::{Stopped, StoreError, Unit};
use crate::recovery::{Trouble, record_error};

impl ToolRunner {
    pub(super) async fn end(
        &self,
        place: &Place<'_>,
        record: ToolCallRecord,
        ran: Ran,
    ) -> Result<CallOutcome> {
        let Ran {
            result,
            capture,
            inn,
        } = ran;
        if let Err(ToolFailure::Store(error)) = result {
            return Err(error.into());
        }
        let stopped = match &result {
            Err(ToolFailure::Stopped { why, .. }) if *why != Stopped::TimedOut => Some(*why),
            _ => None,
        };
        if stopped == Some(Stopped::LeaseLost) {
            return Err(ExecutionError::Stopped(Stopped::LeaseLost));
        }
        let hide = |text: String| self.hidden_text(&text);
        let changes = capture.as_ref().map(|it| it.changes.clone());
        let omitted = capture.map(|it| it.omitted).unwrap_or_default();
        let ending = Ending {
            runner: self.clone(),
            plan: place.plan.clone(),
            changeset: place.changeset.clone(),
            end: self.ending(&result, stopped, inn.tree()),
            trouble: match (&result, stopped) {
                (Ok(_), _) => None,
                (Err(_), Some(why)) if why.takes_back() => None,
                (Err(failure), _) => Some(Trouble {
                    category: category(failure),
                    message: hide(format!("{}: {failure}", record.call.tool)),
                    step: record.call.step,
                    cause_chain: Vec::new(),
                }),
            },
            changes: new_changes(&record, changes.unwrap_or_default()),
            omitted: omitted.iter().map(|it| it.path.to_string()).collect(),
            record,
        };
        let output = match result {
            Ok(output) => CallOutput::Unmasked(output),
            Err(_) => CallOutput::Recorded,
        };
        let ended: ToolCallRecord = self
            .owner
            .write(self.operation("tool.end"), move |unit| {
                Ok::<_, ExecutionError>(ending.write(unit)?)
            })
            .await?;
        // Nobody else enters the sandbox before the call is on record.
        drop(inn);
        Ok(match (stopped, ended.state) {
            (Some(why), _) => CallOutcome::Stopped(why),
            (None, ToolCallState::Completed) => CallOutcome::Completed(CompletedCall {
                record: ended,
                output,
            }),
            (None, _) => CallOutcome::Failed(ended),
        })
    }

    /// What came of a call, without what must not be stored.
    fn ending(
        &self,
        result: &std::result::Result<Value, ToolFailure>,
        stopped: Option<Stopped>,
        tree: &TreeId,
    ) -> ToolCallEnd {
        let (state, output, error) = match result {
            Ok(output) => (ToolCallState::Completed, Some(output.clone()), None),
            Err(failure) => {
                let state = match stopped {
                    Some(why) if why.takes_back() => ToolCallState::Interrupted,
                    _ => ToolCallState::Errored,
                };
                let error = self.hidden_text(&failure.to_string());
                (state, shown(failure), Some(error))
            }
        };
        ToolCallEnd {
            state,
            output: output.map(|mut it| {
                self.secrets.hide_answer(&mut it);
                it
            }),
            error,
            tree_after: tree.clone(),
        }
    }

    /// A text of a tool without what must not be stored. It may quote a file and cut it short.
    fn hidden_text(&self, text: &str) -> String {
        let hidden = self.secrets.hide(text);
        self.secrets.hide_parts(&hidden).into_owned()
    }

    /// Puts on record that a call which ran did not do what its actor needed, and keeps how the
    /// sandboxes stand then.
    pub(in crate::execution) async fn tell_failure(
        &self,
        plan: &Plan,
        record: &ToolCallRecord,
        reason: &str,
    ) -> Result<()> {
        let (runner, plan, record) = (self.clone(), plan.clone(), record.clone());
        let trouble = Trouble {
            category: ErrorCategory::Tool,
            message: reason.to_owned(),
            step: record.call.step,
            cause_chain: Vec::new(),
        };
        self.owner
            .write(self.operation("tool.failed"), move |unit| {
                let (id, actor) = (record.call.plan_id, runner.owner.actor());
                record_error(unit, &*runner.ids, id, &trouble, &actor)?;
                if !runner.policy.wants(&plan, CheckpointTrigger::Error) {
                    return Ok(());
                }
                let moment = Moment {
                    plan: &plan,
                    trigger: CheckpointTrigger::Error,
                    step: record.call.step,
                    call_number: record.number,
                    decision_id: runner.decision,
                    label: format!("after {} failed", record.call.tool),
                };
                let kept = keep(unit, &*runner.ids, &runner.policy, &moment, &actor)?;
                let kept: Vec<NewEvent> = kept.into_iter().collect();
                unit.append(StreamId::Plan(id), &kept)?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }
}

struct Ending {
    runner: ToolRunner,
    plan: Plan,
    changeset: Changeset,
    record: ToolCallRecord,
    end: ToolCallEnd,
    changes: Vec<NewChange>,
    omitted: Vec<String>,
    trouble: Option<Trouble>,
}

impl Ending {
    fn write(&self, unit: &mut dyn Unit) -> std::result::Result<ToolCallRecord, StoreError> {
        let actor = self.runner.owner.actor();
        let call = &self.record.call;
        let mut events = Vec::new();
        // In the order of locks: the plan, what is its own, and its stream last.
        unit.plan_for_update(call.plan_id)?;
        if !self.changes.is_empty() {
            let (_, recorded) = self.changeset.record_in(unit, &actor, &self.changes)?;
            events.extend(recorded);
        }
        if self.end.tree_after != call.tree_before {
            let mut sandbox = unit.sandbox(call.sandbox_id)?;
            sandbox.tree = Some(self.end.tree_after.clone());
            sandbox.updated_at = unit.now()?;
            unit.update_sandbox(&sandbox)?;
        }
        let record = unit.end_tool_call(call.id, &self.end)?;
        if let Some(trouble) = &self.trouble {
            record_error(unit, &*self.runner.ids, call.plan_id, trouble, &actor)?;
        }
        events.extend(self.checkpoint(unit, &record, &actor)?);
        events.push(self.ended(&record, &actor)?);
        unit.append(StreamId::Plan(call.plan_id), &events)?;
        Ok(record)
    }

    fn checkpoint(
        &self,
        unit: &mut dyn Unit,
        record: &ToolCallRecord,
        actor: &str,
    ) -> std::result::Result<Option<NewEvent>, StoreError> {
        let failed = self.trouble.is_some();
        let trigger = match failed {
            true => CheckpointTrigger::Error,
            false => CheckpointTrigger::ToolWriteComplete,
        };
        let policy = &self.runner.policy;
        let changed = self.end.tree_after != self.record.call.tree_before;
        if !(changed || failed) || !policy.wants(&self.plan, trigger) {
            return Ok(None);
        }
        let moment = Moment {
            plan: &self.plan,
            trigger,
            step: record.call.step,
            call_number: record.number,
            decision_id: self.runner.decision,
            label: format!("after {}", record.call.tool),
        };
        keep(unit, &*self.runner.ids, policy, &moment, actor)
    }

    fn ended(
        &self,
        record: &ToolCallRecord,
        actor: &str,
    ) -> std::result::Result<NewEvent, StoreError> {
        let elapsed = record.finished_at.map(|end| {
            let micros = end
                .as_micros()
                .saturating_sub(record.started_at.as_micros());
            micros / 1000
        });
        let told = json!({
            "tool_call_id": record.call.id,
            "number": record.number,
            "tool": record.call.tool,
            "duration_ms": elapsed,
            "changes": self.changes.len(),
            "omitted": self.omitted,
            "tree": self.end.tree_after,
            "error": self.end.error,
        });
        let kind = match record.state {
            ToolCallState::Completed => EventKind::ToolCompleted,
            ToolCallState::Interrupted => EventKind::ToolInterrupted,
            _ => EventKind::ToolErrored,
        };
        event(kind, actor, &told)
    }
}

fn new_changes(record: &ToolCallRecord, changes: Vec<FileChange>) -> Vec<NewChange> {
    let change = |change: FileChange| NewChange {
        path: change.path,
        operation: change.operation,
        before: change.before,
        after: change.after,
        tool_call_id: record.call.id,
        call_number: record.number,
        actor: record.call.actor.clone(),
        step: record.call.step,
    };
    changes.into_iter().map(change).collect()
}

/// What whoever made the call has to know to do better: a file as it is, or the paths that cannot
/// be changed and what the tool said.
fn shown(failure: &ToolFailure) -> Option<Value> {
    match failure {
        ToolFailure::Stale {
            path,
            content,
            hash,
            ..
        } => Some(json!({ "path": path, "content": content, "hash": hash })),
        ToolFailure::Refused { paths, output, .. } => {
            Some(json!({ REFUSED: paths, "output": output }))
        }
        _ => None,
    }
}

const fn category(failure: &ToolFailure) -> ErrorCategory {
    match failure {
        ToolFailure::Stopped {
            why: Stopped::TimedOut,
            ..
        } => ErrorCategory::Timeout,
        ToolFailure::Sandbox(_) => ErrorCategory::Resource,
        ToolFailure::Store(_) => ErrorCategory::Internal,
        _ => ErrorCategory::Tool,
    }
}
