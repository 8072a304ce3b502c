//! Tools: the operations that actors use in a sandbox.

use std::path::PathBuf;

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::{NamespacedName, ResourcePath, ResourceType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::diff::FileStatus;
use crate::request::{Request, RequestKind};

/// Lists tools by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub tool_type: Option<ToolType>,
    pub limit: Option<usize>,
}

/// Runs a tool in a temporary sandbox, created from the current files of a directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolRun {
    pub name: NamespacedName,
    /// Must match the input schema of the tool.
    pub input: Value,
    /// The directory to create the sandbox from.
    pub path: PathBuf,
    /// Keeps the sandbox.
    #[serde(default)]
    pub keep: bool,
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

impl Request for ToolRun {
    type Answer = ToolRunAnswer;
    const NAME: &'static str = "tool.run";
    const KIND: RequestKind = RequestKind::Write;
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

/// The number of tools that match, listed or not.
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

/// The output of a tool, and its changes of the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolRunAnswer {
    pub tool: NamespacedName,
    /// Matches the output schema of the tool.
    pub output: Value,
    pub changes: Vec<ToolChange>,
    /// The changes as text; bytes that are not UTF-8 are replaced.
    pub patch: String,
    /// The exact patch, for a front end in the same process. Not serialised: secrets can be masked
    /// in text only.
    #[serde(skip)]
    pub patch_bytes: Option<Vec<u8>>,
    pub sandbox: TrialSandboxInfo,
}

/// A file that a tool changed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolChange {
    pub path: ResourcePath,
    pub change: FileStatus,
    pub renamed_from: Option<ResourcePath>,
    /// The number of inserted lines; `None` for a binary file.
    pub inserted: Option<u64>,
    /// The number of deleted lines; `None` for a binary file.
    pub deleted: Option<u64>,
}

/// The temporary sandbox of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TrialSandboxInfo {
    pub sandbox_id: SandboxId,
    /// The directory that it was created from.
    pub resource: String,
    #[serde(rename = "type")]
    pub resource_type: ResourceType,
    /// The folder of the sandbox; `None` if it was removed.
    pub kept: Option<String>,
}
