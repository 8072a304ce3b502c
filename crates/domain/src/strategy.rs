//! Strategies: the result of Strategize and the input of Execute, identified by their hash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{DecisionId, PlanId};
use crate::name::NamespacedName;
use crate::time::Timestamp;

/// The steps of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategy {
    pub summary: String,
    /// BLAKE3 of the definition of the actor that executes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub execution: String,
    pub steps: Vec<StrategyStep>,
}

/// One step, executed by the plan's execution actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyStep {
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A stored strategy. Execute runs exactly the approved one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyRecord {
    pub plan_id: PlanId,
    /// Position among the plan's strategies: 1, 2, 3 … Assigned by the store.
    pub number: i64,
    pub attempt: u32,
    /// BLAKE3 of the strategy's JSON.
    pub hash: String,
    pub strategy: Strategy,
    pub actor: NamespacedName,
    /// The decision that chose it.
    pub decision_id: DecisionId,
    pub created_at: Timestamp,
    pub approved_by: Option<String>,
    pub approved_at: Option<Timestamp>,
}

/// The prefix of the approver's name if a profile approved the strategy automatically.
const BY_PROFILE: &str = "profile ";

impl StrategyRecord {
    /// Returns the approver to record if the profile approves automatically.
    pub fn approver(profile: &impl std::fmt::Display) -> String {
        format!("{BY_PROFILE}{profile}")
    }

    /// Returns whether the strategy was approved without the user.
    pub fn is_approved_by_profile(&self) -> bool {
        let by = self.approved_by.as_deref();
        by.is_some_and(|by| by.starts_with(BY_PROFILE))
    }
}
