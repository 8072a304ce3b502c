//! Records of running plans: sandboxes, changesets, tool calls, model calls, checkpoints,
//! validation results and apply attempts. The store assigns `number` and `sequence` without gaps,
//! in the insert itself.
//!
//! Assigning a `number` locks the plan's stream, as an append to its journal does. Recording in a
//! changeset and closing it lock that changeset. A transaction that does both must use the
//! changeset first.

use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_domain::changeset::{ChangesetRecord, NewChange, RecordedChange};
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{
    ApplyId, ChangesetId, CheckpointId, IdFragment, ModelCallId, PlanId, SandboxId, ToolCallId,
};
use cleveragents_domain::model_call::{
    ConversationKey, ModelCallEnd, ModelCallRecord, ModelSpend, NewModelCall,
};
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord};
use cleveragents_domain::{ChangeEntry, Timestamp};
use serde_json::Value;

use super::Result;

pub trait SandboxRecords {
    /// Stores the intent to create a sandbox. Fails with `Taken` if the plan already has a sandbox
    /// of the resource that is not discarded.
    fn insert_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<()>;

    fn sandbox(&mut self, id: SandboxId) -> Result<SandboxRecord>;

    /// Returns the sandbox whose id starts or ends with `fragment`. Fails with `Ambiguous` if
    /// several match.
    fn find_sandbox(&mut self, fragment: &IdFragment) -> Result<SandboxRecord>;

    /// Updates the row if `sandbox.version` is the newest; returns the next version. Fails with
    /// `Refused` if the state transition is not allowed.
    fn update_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<i64>;

    /// Returns the plan's sandboxes that are not discarded, in the order of creation.
    fn sandboxes_of(&mut self, plan: PlanId) -> Result<Vec<SandboxRecord>>;

    /// Returns all sandboxes in these states, or in any state, newest first.
    fn list_sandboxes(&mut self, states: &[SandboxState]) -> Result<Vec<SandboxRecord>>;
}

pub trait Changesets {
    /// Stores the header of a new, empty, open changeset of an existing plan and one of its
    /// sandboxes.
    fn insert_changeset(&mut self, changeset: &ChangesetRecord) -> Result<()>;

    fn changeset(&mut self, id: ChangesetId) -> Result<ChangesetRecord>;

    /// Returns the plan's changesets in the order they were started.
    fn changesets_of(&mut self, plan: PlanId) -> Result<Vec<ChangesetRecord>>;

    /// Appends changes to this changeset, all or none. Fails with `Refused` if it is closed.
    fn record_changes(
        &mut self,
        changeset: ChangesetId,
        changes: &[NewChange],
    ) -> Result<Vec<ChangeEntry>>;

    /// Returns up to `limit` entries of the changeset after this sequence number, in order.
    fn changes_after(
        &mut self,
        changeset: ChangesetId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<RecordedChange>>;

    /// Closes the changeset and returns the number of rows changed: 0 if it was closed before.
    fn close_changeset(&mut self, id: ChangesetId, at: Timestamp) -> Result<u64>;

    /// Marks as undone every change of the plan made by a call after `call_number`; returns how
    /// many were not yet.
    fn undo_changes(&mut self, plan: PlanId, call_number: i64, by: CheckpointId) -> Result<u64>;
}

pub trait ToolCalls {
    /// Stores the start of a call in one of the plan's sandboxes and assigns its number.
    fn begin_tool_call(&mut self, call: &NewToolCall) -> Result<ToolCallRecord>;

    /// Adds the process that an unfinished call started. Fails with `Conflict` if the call has
    /// ended.
    fn set_tool_call_process(&mut self, id: ToolCallId, process: &ProcessIdentity) -> Result<()>;

    /// Ends an unfinished call. Fails with `Conflict` if it has ended.
    fn end_tool_call(&mut self, id: ToolCallId, end: &ToolCallEnd) -> Result<ToolCallRecord>;

    fn tool_call(&mut self, id: ToolCallId) -> Result<ToolCallRecord>;

    /// Returns up to `limit` calls of the plan with numbers after this one, in order.
    fn tool_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ToolCallRecord>>;

    /// Returns calls that have started and not ended.
    fn unfinished_tool_calls(&mut self, plan: PlanId) -> Result<Vec<ToolCallRecord>>;

    /// Marks as undone every call of the plan after this number; returns how many were not yet.
    fn undo_tool_calls(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;

    /// Returns the number of calls of the plan, in this `(attempt, step)` or in total.
    fn count_tool_calls(&mut self, plan: PlanId, step: Option<(u32, u32)>) -> Result<u64>;
}

pub trait ModelCalls {
    /// Stores the start of a model call of an existing plan. Assigns its number, and its ordinal
    /// among the calls of its actor.
    fn begin_model_call(&mut self, call: &NewModelCall) -> Result<ModelCallRecord>;

    /// Ends an unfinished call. Fails with `Conflict` if it has ended.
    fn end_model_call(&mut self, id: ModelCallId, end: &ModelCallEnd) -> Result<ModelCallRecord>;

    /// Returns up to `limit` calls of the plan with numbers after this one, in order.
    fn model_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ModelCallRecord>>;

    /// Returns the newest call of this conversation that is not undone, whatever its outcome.
    fn newest_model_call(
        &mut self,
        plan: PlanId,
        conversation: &ConversationKey,
    ) -> Result<Option<ModelCallRecord>>;

    /// Returns calls that have started and not ended.
    fn unfinished_model_calls(&mut self, plan: PlanId) -> Result<Vec<ModelCallRecord>>;

    /// Returns what the plan has spent, including reservations.
    fn model_spend(&mut self, plan: PlanId) -> Result<ModelSpend>;

    /// Marks as undone every model call that started when the newest tool call was `call_number` or
    /// a later one; returns how many were not yet.
    fn undo_model_calls(&mut self, plan: PlanId, call_number: i64, by: CheckpointId)
    -> Result<u64>;
}

pub trait CheckpointRecords {
    /// Stores a checkpoint of an existing plan, assigns its number, and removes the oldest ones
    /// beyond `keep`. The newest always stays.
    fn insert_checkpoint(&mut self, checkpoint: &Checkpoint, keep: u32) -> Result<i64>;

    /// Returns the checkpoint of the plan whose id starts or ends with `fragment`, or whose number
    /// it is (`0012` is 12, because a fragment has at least four characters). Fails with
    /// `Ambiguous` if several match.
    fn find_checkpoint(&mut self, plan: PlanId, fragment: &IdFragment) -> Result<Checkpoint>;

    /// Returns the plan's checkpoints, oldest first.
    fn checkpoints_of(&mut self, plan: PlanId) -> Result<Vec<Checkpoint>>;

    fn newest_checkpoint(&mut self, plan: PlanId) -> Result<Option<Checkpoint>>;

    /// Removes the undone marks that this checkpoint set on records of the plan.
    fn redo(&mut self, plan: PlanId, by: CheckpointId) -> Result<()>;

    /// Marks as undone the checkpoints after this number; returns how many were not yet.
    fn undo_checkpoints(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;
}

pub trait Strategies {
    /// Stores a strategy of an existing plan and assigns its number.
    fn insert_strategy(&mut self, strategy: &StrategyRecord) -> Result<i64>;

    /// Returns the newest strategy of the plan.
    fn newest_strategy(&mut self, plan: PlanId) -> Result<Option<StrategyRecord>>;

    /// Approves the strategy of this number if it has this hash, else fails with `Refused`. The
    /// first approval is kept.
    fn approve_strategy(&mut self, strategy: &StrategyRecord) -> Result<()>;
}

pub trait ValidationRuns {
    /// Stores the summary of a validation round of a plan's attempt. Replaces one of the same
    /// round.
    fn put_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
        round: u32,
        summary: &Value,
    ) -> Result<()>;

    /// Returns the newest summary of the plan's attempt.
    fn newest_validation_run(&mut self, plan: PlanId, attempt: u32) -> Result<Option<Value>>;
}

pub trait Applies {
    /// Stores an apply attempt of an existing plan and assigns its number. Fails with `Taken` if
    /// the plan has an unfinished attempt.
    fn insert_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    fn apply(&mut self, id: ApplyId) -> Result<ApplyRecord>;

    /// Updates the row if `apply.version` is the newest; returns the next version. Fails with
    /// `Refused` if a finished attempt would become unfinished.
    fn update_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    /// Returns the plan's attempts, oldest first.
    fn applies_of(&mut self, plan: PlanId) -> Result<Vec<ApplyRecord>>;

    /// Returns the unfinished attempts of all plans.
    fn unfinished_applies(&mut self) -> Result<Vec<ApplyRecord>>;
}
