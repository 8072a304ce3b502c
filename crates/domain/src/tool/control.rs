//! Control tools, by which actors with a model report to the plan: finish, submit a strategy,
//! record a decision, ask the user. They have no effect of their own; the engine acts on the input.

use serde::{Deserialize, Serialize};

use super::NamespacedName;
use crate::fraction::Confidence;
use crate::strategy::StrategyStep;

pub const FINISH: &str = "builtin/finish";
pub const SUBMIT_STRATEGY: &str = "builtin/submit-strategy";
pub const RECORD_DECISION: &str = "builtin/record-decision";
pub const ASK_USER: &str = "builtin/ask-user";

pub const ALL: [&str; 4] = [ASK_USER, FINISH, RECORD_DECISION, SUBMIT_STRATEGY];

/// The maximum length of each text, in bytes.
pub const TEXT_MAXIMUM: usize = 16 << 10;
/// The maximum length of a step's title, in characters.
pub const TITLE_MAXIMUM: usize = 200;
/// The maximum number of steps of a strategy.
pub const STEPS_MAXIMUM: usize = 50;
/// The maximum number of decisions submitted with a strategy.
pub const DECISIONS_MAXIMUM: usize = 20;
/// The maximum number of alternatives of a decision.
pub const ALTERNATIVES_MAXIMUM: usize = 10;

/// Returns whether this is a control tool, which is meaningful only within a plan.
pub fn is_control_tool(tool: &NamespacedName) -> bool {
    ALL.contains(&tool.to_string().as_str())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishInput {
    pub summary: String,
}

/// The input of [`SUBMIT_STRATEGY`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmittedStrategy {
    pub summary: String,
    pub confidence: Confidence,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<StatedDecision>,
    pub steps: Vec<StrategyStep>,
}

/// The input of [`RECORD_DECISION`], also used for each decision of a strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatedDecision {
    pub question: String,
    pub chosen: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
}

/// The input of [`ASK_USER`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub question: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_control_tool_is_matched_by_full_name() {
        for name in ALL {
            let name: NamespacedName = name.parse().unwrap();
            assert!(is_control_tool(&name), "{name}");
        }
        for name in ["builtin/file-read", "finish", "hub:builtin/finish"] {
            assert!(!is_control_tool(&name.parse().unwrap()), "{name}");
        }
    }
}
