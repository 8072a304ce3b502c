//! End of a call: its outcome, its changes and the new tree, in one transaction.

use cleveragents_domain::changeset::NewChange;
use cleveragents_domain::checkpoint::CheckpointTrigger;
use cleveragents_domain::event::payloads::{ToolCompleted, ToolErrored, ToolInterrupted};
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{ErrorCategory, NewEvent, Plan, StreamId, TreeId};
use serde_json::{Value, json};

use super::call_facts::{changed_lines, exit_code};
use super::run::ToolRunResult;
use super::{CallOutcome, CallOutput, CompletedCall, ToolCallContext, ToolRunner};
use crate::error_history::{NewErrorRecord, record_error};
use crate::execution::changesets::Changeset;
use crate::execution::checkpoints::{NewCheckpoint, create_checkpoint_if_changed};
use crate::execution::error::{ExecutionError, Result};
use crate::execution::refused_changes::REFUSED_KEY;
use crate::journal::new_event;
use cleveragents_ports::sandbox::FileChange;
use cleveragents_ports::tools::ToolFailure;
use cleveragents_ports::{StopReason, StoreError, Transaction};

impl ToolRunner {
    /// Records the outcome of a call and releases the sandbox's lock.
    pub(super) async fn record(
        &self,
        context: &ToolCallContext<'_>,
        record: ToolCallRecord,
        run_result: ToolRunResult,
    ) -> Result<CallOutcome> {
        let ToolRunResult {
            result,
            capture,
            guard,
        } = run_result;
        if let Err(ToolFailure::Store(error)) = result {
            return Err(error.into());
        }
        let stopped = match &result {
            Err(ToolFailure::Stopped { why, .. }) if *why != StopReason::TimedOut => Some(*why),
            _ => None,
        };
        if stopped == Some(StopReason::LeaseLost) {
            return Err(ExecutionError::Stopped(StopReason::LeaseLost));
        }
        let mask = |text: String| self.mask_text(&text);
        let changes = capture.as_ref().map(|it| it.changes.clone());
        let omitted = capture.map(|it| it.omitted).unwrap_or_default();
        let finish = ToolCallFinish {
            runner: self.clone(),
            plan: context.plan.clone(),
            changeset: context.changeset.clone(),
            end: self.masked_end(&result, stopped, guard.tree()),
            error: match (&result, stopped) {
                (Ok(_), _) => None,
                (Err(_), Some(why)) if why.requires_rollback() => None,
                (Err(failure), _) => Some(NewErrorRecord {
                    category: category(failure),
                    message: mask(format!("{}: {failure}", record.call.tool)),
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
            .write(self.operation("tool.end"), move |tx| {
                Ok::<_, ExecutionError>(finish.write(tx)?)
            })
            .await?;
        self.calls.record(&ended);
        // Keep the sandbox lock until the call is recorded, so that no other call sees unrecorded
        // changes.
        drop(guard);
        Ok(match (stopped, ended.state) {
            (Some(why), _) => CallOutcome::Stopped(why),
            (None, ToolCallState::Completed) => CallOutcome::Completed(CompletedCall {
                record: ended,
                output,
            }),
            (None, _) => CallOutcome::Failed(ended),
        })
    }

    /// Returns the outcome of a call with secrets masked.
    fn masked_end(
        &self,
        result: &std::result::Result<Value, ToolFailure>,
        stopped: Option<StopReason>,
        tree: &TreeId,
    ) -> ToolCallEnd {
        let (state, output, error) = match result {
            Ok(output) => (ToolCallState::Completed, Some(output.clone()), None),
            Err(failure) => {
                let state = match stopped {
                    Some(why) if why.requires_rollback() => ToolCallState::Interrupted,
                    _ => ToolCallState::Errored,
                };
                let error = self.mask_text(&failure.to_string());
                (state, failure_output(failure), Some(error))
            }
        };
        ToolCallEnd {
            state,
            output: output.map(|mut it| {
                self.secrets.mask_answer(&mut it);
                it
            }),
            error,
            tree_after: tree.clone(),
        }
    }

    /// Masks secrets in text from a tool. The text may quote a file and cut it off.
    fn mask_text(&self, text: &str) -> String {
        let hidden = self.secrets.mask(text);
        self.secrets.mask_parts(&hidden).into_owned()
    }

    /// Records that a call ran but did not do what its actor needed, and creates a checkpoint.
    pub(in crate::execution) async fn record_failure(
        &self,
        plan: &Plan,
        record: &ToolCallRecord,
        reason: &str,
    ) -> Result<()> {
        let (runner, plan, record) = (self.clone(), plan.clone(), record.clone());
        let new_error = NewErrorRecord {
            category: ErrorCategory::Tool,
            message: reason.to_owned(),
            step: record.call.step,
            cause_chain: Vec::new(),
        };
        self.owner
            .write(self.operation("tool.failed"), move |tx| {
                let (id, actor) = (record.call.plan_id, runner.owner.actor());
                record_error(tx, &*runner.ids, id, &new_error, &actor)?;
                if !runner.policy.requires(&plan, CheckpointTrigger::Error) {
                    return Ok(());
                }
                let new_checkpoint = NewCheckpoint {
                    plan: &plan,
                    trigger: CheckpointTrigger::Error,
                    step: record.call.step,
                    call_number: record.number,
                    decision_id: runner.decision,
                    label: format!("after {} failed", record.call.tool),
                };
                let kept = create_checkpoint_if_changed(
                    tx,
                    &*runner.ids,
                    &runner.policy,
                    &new_checkpoint,
                    &actor,
                )?;
                let kept: Vec<NewEvent> = kept.into_iter().collect();
                tx.append(StreamId::Plan(id), &kept)?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }
}

struct ToolCallFinish {
    runner: ToolRunner,
    plan: Plan,
    changeset: Changeset,
    record: ToolCallRecord,
    end: ToolCallEnd,
    changes: Vec<NewChange>,
    omitted: Vec<String>,
    error: Option<NewErrorRecord>,
}

impl ToolCallFinish {
    fn write(&self, tx: &mut dyn Transaction) -> std::result::Result<ToolCallRecord, StoreError> {
        let actor = self.runner.owner.actor();
        let call = &self.record.call;
        let mut events = Vec::new();
        // Lock order: the plan, then its rows, then its stream.
        tx.plan_for_update(call.plan_id)?;
        if !self.changes.is_empty() {
            let (_, recorded) = self.changeset.record_in(tx, &actor, &self.changes)?;
            events.extend(recorded);
        }
        // The sandbox's tree moves in the same commit as the end of its call (law 2). A crash can
        // therefore never leave a tree without a call that explains it.
        if self.end.tree_after != call.tree_before {
            let mut sandbox = tx.sandbox(call.sandbox_id)?;
            sandbox.tree = Some(self.end.tree_after.clone());
            sandbox.updated_at = tx.now()?;
            tx.update_sandbox(&sandbox)?;
        }
        let record = tx.end_tool_call(call.id, &self.end)?;
        if let Some(new_error) = &self.error {
            record_error(tx, &*self.runner.ids, call.plan_id, new_error, &actor)?;
        }
        events.extend(self.checkpoint(tx, &record, &actor)?);
        events.push(self.end_event(&record, &actor)?);
        tx.append(StreamId::Plan(call.plan_id), &events)?;
        Ok(record)
    }

    fn checkpoint(
        &self,
        tx: &mut dyn Transaction,
        record: &ToolCallRecord,
        actor: &str,
    ) -> std::result::Result<Option<NewEvent>, StoreError> {
        let failed = self.error.is_some();
        let trigger = if failed {
            CheckpointTrigger::Error
        } else {
            CheckpointTrigger::ToolWriteComplete
        };
        let policy = &self.runner.policy;
        // A checkpoint of an unchanged tree would only repeat the previous one.
        let changed = self.end.tree_after != self.record.call.tree_before;
        if !(changed || failed) || !policy.requires(&self.plan, trigger) {
            return Ok(None);
        }
        let new_checkpoint = NewCheckpoint {
            plan: &self.plan,
            trigger,
            step: record.call.step,
            call_number: record.number,
            decision_id: self.runner.decision,
            label: format!("after {}", record.call.tool),
        };
        create_checkpoint_if_changed(tx, &*self.runner.ids, policy, &new_checkpoint, actor)
    }

    fn end_event(
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
        let (tool_call_id, number, tool) = (record.call.id, record.number, &record.call.tool);
        let (changes, omitted) = (self.changes.len() as u64, self.omitted.clone());
        let (tree, error) = (self.end.tree_after.clone(), self.end.error.clone());
        match record.state {
            ToolCallState::Completed => {
                let completed = ToolCompleted {
                    tool_call_id,
                    number,
                    tool: tool.clone(),
                    duration_ms: elapsed,
                    changes,
                    omitted: Some(omitted),
                    exit_code: exit_code(record),
                    lines: changed_lines(record),
                    tree,
                    error: Some(error),
                };
                new_event(actor, &completed)
            }
            ToolCallState::Interrupted => {
                let interrupted = ToolInterrupted {
                    tool_call_id,
                    number,
                    tool: Some(tool.clone()),
                    duration_ms: elapsed,
                    changes: Some(changes),
                    omitted: Some(omitted),
                    tree,
                    error,
                };
                new_event(actor, &interrupted)
            }
            _ => {
                let errored = ToolErrored {
                    tool_call_id,
                    number,
                    tool: tool.clone(),
                    duration_ms: elapsed,
                    changes,
                    omitted,
                    tree,
                    error,
                };
                new_event(actor, &errored)
            }
        }
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

/// Returns the details an actor needs to correct the call: the current file, or the paths that
/// cannot be changed and the tool's message.
fn failure_output(failure: &ToolFailure) -> Option<Value> {
    match failure {
        ToolFailure::Stale {
            path,
            content,
            hash,
            ..
        } => Some(json!({ "path": path, "content": content, "hash": hash })),
        ToolFailure::Refused { paths, output, .. } => {
            Some(json!({ REFUSED_KEY: paths, "output": output }))
        }
        _ => None,
    }
}

const fn category(failure: &ToolFailure) -> ErrorCategory {
    match failure {
        ToolFailure::Stopped {
            why: StopReason::TimedOut,
            ..
        } => ErrorCategory::Timeout,
        ToolFailure::Sandbox(_) => ErrorCategory::Resource,
        ToolFailure::Store(_) => ErrorCategory::Internal,
        _ => ErrorCategory::Tool,
    }
}
