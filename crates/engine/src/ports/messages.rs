//! Messages to the owner of a running plan (law 5).

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, PlanMessage};

use super::Result;

pub trait Messages {
    /// Leaves a message for whoever owns an existing plan and answers with its place. Places have
    /// no gaps.
    fn send_message(&mut self, message: &PlanMessage) -> Result<i64>;

    /// Takes the plan's messages of these kinds that nobody took yet, in order. Of several takers
    /// each message goes to one.
    fn take_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>>;

    /// How many messages of these kinds nobody took yet.
    fn pending_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<u64>;
}
