//! Tools: the operations that actors use in a sandbox.

use cleveragents_domain::NamespacedName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Request, RequestKind};

/// Lists tools by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub tool_type: Option<ToolType>,
}

/// Returns a tool with its schemas.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolShow {
    pub name: NamespacedName,
}

impl Request for ToolList {
    type Answer = ToolPage;
    const NAME: &'static str = "tool.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ToolShow {
    type Answer = ToolDetails;
    const NAME: &'static str = "tool.show";
    const KIND: RequestKind = RequestKind::Read;
}

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    /// Does something.
    Tool,
    /// Checks a condition, and gates Apply.
    Validation,
}

/// The tools that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolPage {
    pub tools: Vec<ToolSummary>,
    pub filters: ToolFilters,
    pub summary: ToolCounts,
}

/// One tool in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolSummary {
    pub name: NamespacedName,
    pub description: String,
    #[serde(rename = "type")]
    pub tool_type: ToolType,
    /// The namespace of its name.
    pub source: String,
    pub capability: ToolCapability,
}

/// The effects of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCapability {
    pub read_only: bool,
    pub writes: bool,
    pub idempotent: bool,
    /// Whether a profile must allow it explicitly.
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
    /// Descriptions of its effects outside the sandbox.
    pub side_effects: Vec<String>,
    /// Whether its changes are captured, so that they can be undone.
    pub checkpointable: bool,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolFilters {
    #[serde(rename = "type")]
    pub tool_type: Option<ToolType>,
    pub pattern: Option<String>,
}

/// The number of tools that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCounts {
    pub total: usize,
}

/// A tool with its schemas.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolDetails {
    #[serde(flatten)]
    pub tool: ToolSummary,
    /// The timeout of a call.
    pub timeout_seconds: u64,
    /// A JSON Schema.
    pub input_schema: Value,
    /// A JSON Schema.
    pub output_schema: Value,
}
