//! Messages to the owner of a running plan (law 5).

use cleveragents_domain::PlanMessage;
use cleveragents_domain::id::PlanId;

use super::Result;

pub trait Messages {
    /// Leaves a message for whoever owns an existing plan and answers with its place. Places have
    /// no gaps.
    fn send_message(&mut self, message: &PlanMessage) -> Result<i64>;

    /// Takes the plan's messages that nobody took yet, in order. Of several takers each message
    /// goes to one.
    fn take_messages(&mut self, plan: PlanId) -> Result<Vec<PlanMessage>>;

    /// How many messages nobody took yet.
    fn pending_messages(&mut self, plan: PlanId) -> Result<u64>;
}
