//! Messages to the owner of a running plan (law 5).

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, PlanMessage};

use super::Result;

pub trait Messages {
    /// Stores a message for the owner of an existing plan and returns its sequence number. Sequence
    /// numbers have no gaps.
    fn send_message(&mut self, message: &PlanMessage) -> Result<i64>;

    /// Takes the plan's pending messages of these kinds, in order. Each message is returned to
    /// exactly one caller.
    fn take_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>>;

    /// Returns the number of pending messages of these kinds.
    fn pending_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<u64>;
}
