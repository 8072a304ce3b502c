//! Strategies: what Strategize gives and Execute carries out, named by their hash.

use serde::{Deserialize, Serialize};

use crate::id::{DecisionId, PlanId};
use crate::name::NamespacedName;
use crate::time::Timestamp;

/// What is to be done, in which steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategy {
    pub summary: String,
    /// BLAKE3 of the definition of the actor that carries it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub execution: String,
    pub steps: Vec<StrategyStep>,
}

/// One step, carried out by the plan's execution actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyStep {
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A strategy as it was stored; Execute carries out exactly the one that was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyRecord {
    pub plan_id: PlanId,
    /// Place among the plan's strategies: 1, 2, 3 … Given by the store.
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

/// What stands before the name of a profile that approved a strategy by itself.
const BY_PROFILE: &str = "profile ";

impl StrategyRecord {
    /// Who approves for a profile of this name.
    pub fn approver(profile: &impl std::fmt::Display) -> String {
        format!("{BY_PROFILE}{profile}")
    }

    /// Whether no human had to.
    pub fn is_approved_by_profile(&self) -> bool {
        let by = self.approved_by.as_deref();
        by.is_some_and(|by| by.starts_with(BY_PROFILE))
    }
}
