//! Messages to the owner of a running plan: cancel, pause and prompt (law 5). Whoever owns the
//! plan takes them in order, each once.

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, PlanId};
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// A word to whoever owns a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMessage {
    pub id: MessageId,
    pub plan_id: PlanId,
    /// Place among the plan's messages: 1, 2, 3 … Given by the store.
    pub sequence: i64,
    pub kind: MessageKind,
    /// The reason or the guidance.
    pub body: String,
    /// Who sent it.
    pub actor: String,
    pub at: Timestamp,
    /// When the owner took it.
    pub taken_at: Option<Timestamp>,
}

text_enum! {
    /// What the owner is asked to do.
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
