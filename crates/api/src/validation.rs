//! Validations: checks of the results of plans, and their attachments to resources.

use std::collections::BTreeMap;

use cleveragents_domain::id::{AttachmentId, ResourceId};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{NamespacedName, Timestamp, ValidationMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition_change::DefinitionChange;
use crate::definition_text::DefinitionText;
use crate::plan::PlanReference;
use crate::request::{Request, RequestKind};
use crate::tool::ToolType;

/// Adds a validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationAdd {
    pub config: DefinitionText,
    /// Replaces a validation of the same name, wherever it is attached, instead of failing.
    #[serde(default)]
    pub update: bool,
}

/// Attaches a validation to a resource. Without a scope it applies to every plan on the resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationAttach {
    pub resource: NamespacedName,
    pub validation: NamespacedName,
    /// The arguments of the validation, each as `NAME=VALUE`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Only plans of this project. Excludes `plan`.
    #[serde(default)]
    pub project: Option<NamespacedName>,
    /// Only this plan.
    #[serde(default)]
    pub plan: Option<PlanReference>,
}

/// Detaches a validation from a resource. Its earlier results stay recorded.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDetach {
    /// The id of the attachment, or at least four characters of either end of it or of its last
    /// eight. With `validation`: the resource.
    pub attachment: String,
    /// The validation to detach from a resource. The other fields are those of the attachment.
    #[serde(default)]
    pub validation: Option<NamespacedName>,
    /// The arguments of the attachment, each as `NAME=VALUE`. May be left out if there is only one.
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub project: Option<NamespacedName>,
    #[serde(default)]
    pub plan: Option<PlanReference>,
}

/// Lists validations by name, and where they are attached.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ValidationList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub mode: Option<ValidationMode>,
    pub limit: Option<usize>,
}

/// Removes a validation that is attached nowhere.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationRemove {
    pub name: NamespacedName,
}

/// Returns a validation and its attachments.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationShow {
    pub name: NamespacedName,
}

impl Request for ValidationAdd {
    type Answer = ValidationAdded;
    const NAME: &'static str = "validation.add";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ValidationAttach {
    type Answer = ValidationAttached;
    const NAME: &'static str = "validation.attach";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ValidationDetach {
    type Answer = ValidationDetached;
    const NAME: &'static str = "validation.detach";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ValidationList {
    type Answer = ValidationPage;
    const NAME: &'static str = "validation.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ValidationRemove {
    type Answer = ValidationRemoved;
    const NAME: &'static str = "validation.remove";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ValidationShow {
    type Answer = ValidationWithAttachments;
    const NAME: &'static str = "validation.show";
    const KIND: RequestKind = RequestKind::Read;
}

/// The validation that was added or replaced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationAdded {
    pub validation_added: ChangedValidation,
}

/// A validation and the effect of adding it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangedValidation {
    #[serde(flatten)]
    pub validation: ValidationDetails,
    pub change: DefinitionChange,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationRemoved {
    pub validation_removed: ValidationDetails,
}

/// The new attachment.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationAttached {
    pub validation_attached: AttachmentDetails,
}

/// The attachment that was removed, as it was.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDetached {
    pub validation_detached: AttachmentDetails,
}

/// A validation and its attachments, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationWithAttachments {
    pub validation: ValidationDetails,
    pub attachments: Vec<AttachmentDetails>,
}

/// The validations that match, and all their attachments.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationPage {
    pub validations: Vec<ListedValidation>,
    /// The attachments of all validations that match, listed or not.
    pub attachments: Vec<AttachmentDetails>,
    pub filters: ValidationFilters,
    pub summary: ValidationCounts,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedValidation {
    #[serde(flatten)]
    pub validation: ValidationDetails,
    /// Number of its attachments.
    pub attachments: usize,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationFilters {
    pub mode: Option<ValidationMode>,
    pub pattern: Option<String>,
}

/// Counts over all validations that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationCounts {
    pub total: usize,
    pub required: usize,
    pub informational: usize,
    pub attachments: usize,
}

/// A validation with all its fields. It has either `run`, or `wraps`, `input` and `transform`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDetails {
    pub name: NamespacedName,
    pub description: String,
    #[serde(rename = "type")]
    pub tool_type: ToolType,
    pub mode: ValidationMode,
    /// A command for `sh -c`, a template over the arguments of an attachment.
    pub run: Option<String>,
    /// A tool whose output is checked.
    pub wraps: Option<NamespacedName>,
    /// The input of the tool. Its strings are templates over the arguments of an attachment.
    pub input: Option<Value>,
    /// The expression that converts the tool's output to a verdict.
    pub transform: Option<String>,
    /// In seconds.
    pub timeout: u64,
    pub capability: ValidationCapability,
    /// The hash of the definition's content.
    pub hash: String,
    /// The version of the format of definitions.
    pub schema_version: u64,
    pub version: i64,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// The effects of a validation. They are the same for all: a tool that writes is refused, and
/// changes that a command makes in the sandbox are discarded.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationCapability {
    pub read_only: bool,
    pub writes: bool,
    pub checkpointable: bool,
}

/// A validation bound to a resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentDetails {
    pub attachment_id: AttachmentId,
    pub validation: NamespacedName,
    pub mode: ValidationMode,
    pub resource: NamespacedName,
    pub resource_id: ResourceId,
    /// The plans for which it is in effect.
    pub scope: AttachmentScopeKind,
    /// The name of the project or the id of the plan, unless the scope is direct.
    pub scope_target: Option<String>,
    /// The arguments of the validation.
    pub args: BTreeMap<String, Value>,
    pub created_at: Timestamp,
}
