//! Records of model calls. The store assigns the `number` of a call without gaps, in the insert
//! itself, which locks the plan's stream as an append to its journal does.

use cleveragents_domain::id::{CheckpointId, ModelCallId, PlanId};
use cleveragents_domain::model_call::{
    ConversationKey, ModelCallEnd, ModelCallRecord, ModelTotals, NewModelCall,
};

use super::Result;

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

    /// Adds up the plan's calls. Calls that have not ended count with their reservation.
    fn model_totals(&mut self, plan: PlanId) -> Result<ModelTotals>;

    /// Marks as undone every model call that started when the newest tool call was `call_number` or
    /// a later one; returns how many were not yet.
    fn undo_model_calls(&mut self, plan: PlanId, call_number: i64, by: CheckpointId)
    -> Result<u64>;
}
