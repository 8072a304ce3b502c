//! Payloads about the owners of plans and the messages to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{MessageId, OwnerId, PlanId};
use crate::lifecycle::Phase;
use crate::message::PlanMessage;
use crate::time::Timestamp;

/// A process claimed a plan's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClaimed {
    pub phase: Phase,
    pub epoch: i64,
    pub owner: OwnerId,
    pub node: String,
    /// Dead owners whose leases were not waited for.
    pub dead: Vec<OwnerId>,
}

/// A process released a plan's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunReleased {
    pub plan: PlanId,
    pub owner: OwnerId,
    pub epoch: i64,
    pub expires_at: Timestamp,
}

/// A command moved the plan although it had an owner, because that owner was dead or its lease had
/// expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvicted {
    pub plan: PlanId,
    pub phase: Phase,
    pub owner: OwnerId,
    pub node: String,
    pub epoch: i64,
    pub claimed_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A message was sent to the owner of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MessageSent(pub PlanMessage);

/// The owner of a plan received its pending messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageTaken {
    pub messages: Vec<MessageId>,
}
