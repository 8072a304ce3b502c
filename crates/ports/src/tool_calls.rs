//! Records of tool calls, and of the changes that they made. The store assigns `number` and
//! `sequence` without gaps, in the insert itself.
//!
//! Assigning a `number` locks the plan's stream, as an append to its journal does. Recording in a
//! changeset and closing it lock that changeset. A transaction that does both must use the
//! changeset first.

use cleveragents_domain::changeset::{ChangesetRecord, NewChange, RecordedChange};
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId, ToolCallId};
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord};
use cleveragents_domain::{ChangeEntry, Timestamp};

use super::Result;

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
