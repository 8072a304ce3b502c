//! What is stored of plans at work: sandboxes, changesets, tool calls, calls of models, checkpoints,
//! results of validations and attempts to apply. Places (`number`, `sequence`) are given by the
//! store, without gaps, in the insert itself.
//!
//! What gives a `number` takes the plan's turn, as an append to its journal does; recording in and
//! closing a changeset waits for whoever does so in the same one. A transaction with both records
//! and closes first.

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
    /// Stores the intent to make a sandbox. A plan has at most one for each resource that is not
    /// discarded: a second is `Taken`.
    fn insert_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<()>;

    fn sandbox(&mut self, id: SandboxId) -> Result<SandboxRecord>;

    /// The one sandbox whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_sandbox(&mut self, fragment: &IdFragment) -> Result<SandboxRecord>;

    /// Replaces the row if `sandbox.version` is still the newest and its state is the same or may
    /// become the new one, else it is `Refused`; answers with the next version.
    fn update_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<i64>;

    /// The plan's sandboxes that are not discarded, in the order they were made.
    fn sandboxes_of(&mut self, plan: PlanId) -> Result<Vec<SandboxRecord>>;

    /// All sandboxes, newest first, of these states or of any.
    fn list_sandboxes(&mut self, states: &[SandboxState]) -> Result<Vec<SandboxRecord>>;
}

pub trait Changesets {
    /// Stores the header of a new, empty, open changeset of an existing plan and one of its
    /// sandboxes.
    fn insert_changeset(&mut self, changeset: &ChangesetRecord) -> Result<()>;

    fn changeset(&mut self, id: ChangesetId) -> Result<ChangesetRecord>;

    /// The plan's changesets in the order they were started.
    fn changesets_of(&mut self, plan: PlanId) -> Result<Vec<ChangesetRecord>>;

    /// Appends changes to this very changeset, all or none; a closed one is `Refused`.
    fn record_changes(
        &mut self,
        changeset: ChangesetId,
        changes: &[NewChange],
    ) -> Result<Vec<ChangeEntry>>;

    /// Entries of the changeset after this sequence, in order, at most so many.
    fn changes_after(
        &mut self,
        changeset: ChangesetId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<RecordedChange>>;

    /// Takes no more changes from now on; closing twice is closing once, and answers with 0.
    fn close_changeset(&mut self, id: ChangesetId, at: Timestamp) -> Result<u64>;

    /// Marks every change of the plan that was made by a call after `call_number` and is not yet
    /// undone; answers how many were.
    fn undo_changes(&mut self, plan: PlanId, call_number: i64, by: CheckpointId) -> Result<u64>;
}

pub trait ToolCalls {
    /// Stores a call that begins, in one of the plan's sandboxes, and gives it its number.
    fn begin_tool_call(&mut self, call: &NewToolCall) -> Result<ToolCallRecord>;

    /// Adds the process that an unfinished call started; one that has ended is a `Conflict`.
    fn set_tool_call_process(&mut self, id: ToolCallId, process: &ProcessIdentity) -> Result<()>;

    /// Ends an unfinished call; one that has ended is a `Conflict`.
    fn end_tool_call(&mut self, id: ToolCallId, end: &ToolCallEnd) -> Result<ToolCallRecord>;

    fn tool_call(&mut self, id: ToolCallId) -> Result<ToolCallRecord>;

    /// The plan's calls with numbers after this one, in order, at most so many.
    fn tool_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ToolCallRecord>>;

    /// Calls that were begun and have not ended.
    fn unfinished_tool_calls(&mut self, plan: PlanId) -> Result<Vec<ToolCallRecord>>;

    /// Marks every call of the plan after this number that is not yet undone; answers how many
    /// were.
    fn undo_tool_calls(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;

    /// How many calls the plan made, in this `(attempt, step)` or in all.
    fn count_tool_calls(&mut self, plan: PlanId, step: Option<(u32, u32)>) -> Result<u64>;
}

pub trait ModelCalls {
    /// Stores that a model of an existing plan is about to be asked, and gives the call its number
    /// and its ordinal among those of its actor.
    fn begin_model_call(&mut self, call: &NewModelCall) -> Result<ModelCallRecord>;

    /// Ends a call that was only asked; one that has ended is a `Conflict`.
    fn end_model_call(&mut self, id: ModelCallId, end: &ModelCallEnd) -> Result<ModelCallRecord>;

    /// The plan's calls with numbers after this one, in order, at most so many.
    fn model_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ModelCallRecord>>;

    /// The newest call of this conversation that stands, however it ended.
    fn newest_model_call(
        &mut self,
        plan: PlanId,
        conversation: &ConversationKey,
    ) -> Result<Option<ModelCallRecord>>;

    /// Calls that were asked and have not ended.
    fn unfinished_model_calls(&mut self, plan: PlanId) -> Result<Vec<ModelCallRecord>>;

    /// What the plan has used up, what is reserved included.
    fn model_spend(&mut self, plan: PlanId) -> Result<ModelSpend>;

    /// Marks every call that was asked when this call of a tool or a later one was the newest, and
    /// is not yet undone; answers how many were.
    fn undo_model_calls(&mut self, plan: PlanId, call_number: i64, by: CheckpointId)
    -> Result<u64>;
}

pub trait CheckpointRecords {
    /// Stores a checkpoint of an existing plan, gives it its number, and removes the oldest
    /// beyond `keep`. The newest always stays.
    fn insert_checkpoint(&mut self, checkpoint: &Checkpoint, keep: u32) -> Result<i64>;

    /// The one checkpoint of the plan whose id begins or ends with `fragment`, or whose number it
    /// is (`0012` is 12, because a fragment has four characters); several are `Ambiguous`.
    fn find_checkpoint(&mut self, plan: PlanId, fragment: &IdFragment) -> Result<Checkpoint>;

    /// The plan's checkpoints, oldest first.
    fn checkpoints_of(&mut self, plan: PlanId) -> Result<Vec<Checkpoint>>;

    fn newest_checkpoint(&mut self, plan: PlanId) -> Result<Option<Checkpoint>>;

    /// Everything of the plan that was undone by this checkpoint stands again.
    fn redo(&mut self, plan: PlanId, by: CheckpointId) -> Result<()>;

    /// Marks the checkpoints after this number that are not yet undone; answers how many were.
    fn undo_checkpoints(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;
}

pub trait Strategies {
    /// Stores a strategy of an existing plan and gives it its number.
    fn insert_strategy(&mut self, strategy: &StrategyRecord) -> Result<i64>;

    /// The newest strategy of the plan.
    fn newest_strategy(&mut self, plan: PlanId) -> Result<Option<StrategyRecord>>;

    /// Approves the strategy of this number if it has this hash, else it is `Refused`; the first
    /// approval stays.
    fn approve_strategy(&mut self, strategy: &StrategyRecord) -> Result<()>;
}

pub trait ValidationRuns {
    /// Stores the summary of a round of validations of an attempt of a plan, replacing one of
    /// the same round.
    fn put_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
        round: u32,
        summary: &Value,
    ) -> Result<()>;

    /// The newest summary of the plan's attempt.
    fn newest_validation_run(&mut self, plan: PlanId, attempt: u32) -> Result<Option<Value>>;
}

pub trait Applies {
    /// Stores an attempt of an existing plan and gives it its number. A plan has at most one that
    /// is not finished: a second is `Taken`.
    fn insert_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    fn apply(&mut self, id: ApplyId) -> Result<ApplyRecord>;

    /// Replaces the row if `apply.version` is still the newest; answers with the next one. One
    /// that is finished does not become unfinished: that is `Refused`.
    fn update_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    /// The plan's attempts, oldest first.
    fn applies_of(&mut self, plan: PlanId) -> Result<Vec<ApplyRecord>>;

    /// Every attempt of any plan that is not finished.
    fn unfinished_applies(&mut self) -> Result<Vec<ApplyRecord>>;
}
