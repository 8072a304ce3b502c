//! What actors with a model say by calling a tool: that they are done, what they mean to do, what
//! they chose, what they have to ask. Such a tool touches nothing; the engine acts on what was said.

use serde::{Deserialize, Serialize};

use super::NamespacedName;
use crate::fraction::Confidence;
use crate::strategy::StrategyStep;

pub const FINISH: &str = "builtin/finish";
pub const SUBMIT_STRATEGY: &str = "builtin/submit-strategy";
pub const RECORD_DECISION: &str = "builtin/record-decision";
pub const ASK_USER: &str = "builtin/ask-user";

/// Every tool by which an actor says something.
pub const ALL: [&str; 4] = [ASK_USER, FINISH, RECORD_DECISION, SUBMIT_STRATEGY];

/// The longest each text may be, in bytes.
pub const TEXT_MAXIMUM: usize = 16 << 10;
/// The longest a step's title may be, in characters.
pub const TITLE_MAXIMUM: usize = 200;
/// How many steps a strategy may have.
pub const STEPS_MAXIMUM: usize = 50;
/// How many decisions a strategy may come with.
pub const DECISIONS_MAXIMUM: usize = 20;
/// How many alternatives a decision may name.
pub const ALTERNATIVES_MAXIMUM: usize = 10;

/// Whether calling this tool says something to the plan, so that it has a meaning only in one.
pub fn is_control_tool(tool: &NamespacedName) -> bool {
    ALL.contains(&tool.to_string().as_str())
}

/// What [`FINISH`] is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishInput {
    pub summary: String,
}

/// What [`SUBMIT_STRATEGY`] is given.
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

/// What [`RECORD_DECISION`] is given, and each decision of a strategy.
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

/// What [`ASK_USER`] is given.
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
