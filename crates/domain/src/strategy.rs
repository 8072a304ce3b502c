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
    pub approved_by: Option<Approver>,
    pub approved_at: Option<Timestamp>,
}

/// The origin of an approval. A strategy that a user approved runs only with the actor that the
/// user saw; one that a profile approved runs with the actor as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Approver {
    User(String),
    /// The automation profile of the plan, without asking a user.
    Profile(String),
}

const STORED_PROFILE: &str = "profile ";
const STORED_USER: &str = "user ";

impl Approver {
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User(_))
    }

    /// Returns the form that is stored. Most users are stored by name alone, as all were once; only
    /// a name that looks like another form needs the word in front.
    pub fn to_stored(&self) -> String {
        match self {
            Self::User(name)
                if name.starts_with(STORED_PROFILE) || name.starts_with(STORED_USER) =>
            {
                format!("{STORED_USER}{name}")
            }
            Self::User(name) => name.clone(),
            Self::Profile(name) => format!("{STORED_PROFILE}{name}"),
        }
    }

    pub fn from_stored(text: &str) -> Self {
        if let Some(name) = text.strip_prefix(STORED_PROFILE) {
            return Self::Profile(name.to_owned());
        }
        let name = text.strip_prefix(STORED_USER).unwrap_or(text);
        Self::User(name.to_owned())
    }
}

/// Displays the name of the user, or that it was a profile.
impl std::fmt::Display for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::Profile(name) => write!(f, "profile {name}"),
        }
    }
}

impl From<Approver> for String {
    fn from(approver: Approver) -> Self {
        approver.to_stored()
    }
}

impl From<String> for Approver {
    fn from(stored: String) -> Self {
        Self::from_stored(&stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_approver_is_read_back() {
        for name in ["eva", "profile full-auto", "user eva", "user profile x", ""] {
            for approver in [
                Approver::User(name.to_owned()),
                Approver::Profile(name.to_owned()),
            ] {
                assert_eq!(Approver::from_stored(&approver.to_stored()), approver);
            }
        }
    }

    #[test]
    fn approvers_stored_by_earlier_versions_are_read() {
        assert_eq!(
            Approver::from_stored("profile cautious"),
            Approver::Profile("cautious".to_owned())
        );
        assert_eq!(
            Approver::from_stored("eva"),
            Approver::User("eva".to_owned())
        );
    }
}
