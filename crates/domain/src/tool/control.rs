//! Control tools, by which actors with a model report to the plan: finish, submit a strategy,
//! record a decision, ask the user. They have no effect of their own; the engine acts on the input.

use serde::{Deserialize, Serialize};

use super::NamespacedName;
use crate::fraction::Confidence;
use crate::strategy::StrategyStep;
use crate::text_enum::text_enum;

text_enum! {
    /// A control tool, by its full name.
    ControlTool: "control tool" {
        AskUser = "builtin/ask-user",
        Finish = "builtin/finish",
        RecordDecision = "builtin/record-decision",
        SubmitStrategy = "builtin/submit-strategy",
    }
}

impl ControlTool {
    /// Returns the control tool with this name, or `None` for any other tool.
    pub fn from_name(tool: &NamespacedName) -> Option<Self> {
        tool.to_string().parse().ok()
    }
}

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
    ControlTool::from_name(tool).is_some()
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishInput {
    pub summary: String,
}

/// The input of [`ControlTool::SubmitStrategy`].
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

/// The input of [`ControlTool::RecordDecision`], also used for each decision of a strategy.
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

/// The input of [`ControlTool::AskUser`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub question: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_control_tool_is_matched_by_full_name() {
        for tool in ControlTool::ALL {
            let name: NamespacedName = tool.as_str().parse().unwrap();
            assert_eq!(ControlTool::from_name(&name), Some(*tool));
            assert!(is_control_tool(&name), "{name}");
        }
        for name in ["builtin/file-read", "finish", "hub:builtin/finish"] {
            assert!(!is_control_tool(&name.parse().unwrap()), "{name}");
        }
    }
}
