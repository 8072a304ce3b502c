//! Messages to the owner of a running plan: cancel, pause and prompt (law 5). The current owner
//! receives them in order, each once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{MessageId, PlanId};
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// A message to the owner of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanMessage {
    pub id: MessageId,
    pub plan_id: PlanId,
    /// Position among the plan's messages: 1, 2, 3 … Assigned by the store.
    pub sequence: i64,
    pub kind: MessageKind,
    /// The reason or the guidance.
    pub body: String,
    /// The sender.
    pub actor: String,
    pub at: Timestamp,
    /// When the owner received it.
    pub taken_at: Option<Timestamp>,
}

text_enum! {
    /// The request that the message makes to the owner.
    MessageKind: "kind of message" {
        Cancel = "cancel",
        Prompt = "prompt",
        Pause = "pause",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back() {
        for kind in MessageKind::ALL.iter().copied() {
            let message = PlanMessage {
                id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
                plan_id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
                sequence: 1,
                kind,
                body: "not needed any more".to_owned(),
                actor: "eva".to_owned(),
                at: Timestamp::default(),
                taken_at: None,
            };
            let json = serde_json::to_string(&message).unwrap();
            assert_eq!(serde_json::from_str::<PlanMessage>(&json).unwrap(), message);
        }
    }
}
