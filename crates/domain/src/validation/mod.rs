//! Validations: checks of a plan's result, and their attachments to resources.
//!
//! A [`Validation`] is a command or a tool whose output says whether it passed; its mode says
//! whether it gates. An [`Attachment`] binds one to a resource. [`applicable`](mod@applicable)
//! selects those that apply to a plan, [`verdict`] holds their results.

pub mod applicable;
pub mod verdict;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{DESCRIPTION_MAXIMUM, TEXT_MAXIMUM};
use crate::actor::{INPUT_MAXIMUM, RESERVED_NAMESPACE, is_reserved};
use crate::id::{AttachmentId, PlanId, ResourceId};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

pub use applicable::{
    ApplicableValidation, PlanResource, UnknownValidation, ValidationTarget, applicable_validations,
};
pub use verdict::{
    CommandOutcome, FinishedValidation, ValidationExit, ValidationResult, ValidationSummary,
    ValidationVerdict,
};

/// The default timeout of a validation, in seconds.
pub const TIMEOUT_DEFAULT: u64 = 300;
/// The maximum timeout of a validation, in seconds.
pub const TIMEOUT_MAXIMUM: u64 = 86_400;

/// A check of a plan's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    pub name: NamespacedName,
    pub description: String,
    pub mode: ValidationMode,
    pub source: ValidationSource,
    /// In seconds.
    pub timeout: u64,
}

text_enum! {
    /// Whether a failed validation prevents the plan from being applied. The mode belongs to the
    /// definition, never to an attachment. The stricter mode sorts first.
    ValidationMode: "mode of a validation" {
        Required = "required",
        Informational = "informational",
    }
}

/// The command or tool to run, and the format of its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationSource {
    /// A command for `sh -c`, run in the sandbox. It is a template over the attachment's arguments.
    Run(String),
    Wraps(WrappedTool),
}

/// A tool with an expression that converts its output to a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WrappedTool {
    pub tool: NamespacedName,
    /// A JSON object whose strings are templates over the attachment's arguments.
    pub input: Value,
    /// An expression over `output` that returns true, false, or an object with `passed`.
    pub transform: String,
}

/// A validation bound to a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    pub id: AttachmentId,
    pub validation: NamespacedName,
    pub resource: ResourceId,
    pub scope: AttachmentScope,
    /// Available to the validation's templates as `args`.
    #[serde(default)]
    pub args: BTreeMap<String, Value>,
    pub created_at: Timestamp,
}

/// The plans for which an attachment is in effect.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentScope {
    /// Every plan that works on the resource.
    Direct,
    /// Plans of this project.
    Project(NamespacedName),
    /// Only this plan.
    Plan(PlanId),
}

text_enum! {
    /// A scope without its target.
    AttachmentScopeKind: "scope of an attachment" {
        Direct = "direct",
        Project = "project",
        Plan = "plan",
    }
}

impl AttachmentScope {
    pub const fn kind(&self) -> AttachmentScopeKind {
        match self {
            Self::Direct => AttachmentScopeKind::Direct,
            Self::Project(_) => AttachmentScopeKind::Project,
            Self::Plan(_) => AttachmentScopeKind::Plan,
        }
    }

    /// The target of the scope as text; `None` if the scope is direct.
    pub fn target(&self) -> Option<String> {
        match self {
            Self::Direct => None,
            Self::Project(name) => Some(name.to_string()),
            Self::Plan(plan) => Some(plan.to_string()),
        }
    }
}

/// Error of an invalid validation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    #[error("names in `{RESERVED_NAMESPACE}/` are this program's own: `{name}` cannot be defined")]
    Reserved { name: NamespacedName },
    #[error("`{field}` must not be empty")]
    Empty { field: &'static str },
    #[error("`{field}` may be {maximum} bytes long, this one has {length}")]
    TooLong {
        field: &'static str,
        maximum: usize,
        length: usize,
    },
    #[error("`input` must be a mapping")]
    InputNotAnObject,
    #[error("`timeout` must be from 1 to {TIMEOUT_MAXIMUM} seconds, not {seconds}")]
    Timeout { seconds: u64 },
}

impl ValidationError {
    /// The key of the definition that is invalid.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Reserved { .. } => "name",
            Self::Empty { field } | Self::TooLong { field, .. } => field,
            Self::InputNotAnObject => "input",
            Self::Timeout { .. } => "timeout",
        }
    }
}

impl Validation {
    /// Runs every check that needs neither a template engine nor a registry. Returns the first
    /// problem.
    pub fn validate(&self) -> Result<(), ValidationError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns every problem that [`Self::validate`] could report.
    pub fn problems(&self) -> Vec<ValidationError> {
        let mut problems = Vec::new();
        if is_reserved(&self.name) {
            let name = self.name.clone();
            problems.push(ValidationError::Reserved { name });
        }
        let mut text = |field, text: &str, maximum| {
            problems.extend(text_problem(field, text, maximum));
        };
        text("description", &self.description, DESCRIPTION_MAXIMUM);
        match &self.source {
            ValidationSource::Run(command) => text("run", command, TEXT_MAXIMUM),
            ValidationSource::Wraps(wrapped) => {
                text("transform", &wrapped.transform, TEXT_MAXIMUM);
                if !wrapped.input.is_object() {
                    problems.push(ValidationError::InputNotAnObject);
                }
                problems.extend(length_problem(
                    "input",
                    wrapped.input.to_string().len(),
                    INPUT_MAXIMUM,
                ));
            }
        }
        if !(1..=TIMEOUT_MAXIMUM).contains(&self.timeout) {
            let seconds = self.timeout;
            problems.push(ValidationError::Timeout { seconds });
        }
        problems
    }
}

fn text_problem(field: &'static str, text: &str, maximum: usize) -> Option<ValidationError> {
    if text.trim().is_empty() {
        return Some(ValidationError::Empty { field });
    }
    length_problem(field, text.len(), maximum)
}

fn length_problem(field: &'static str, length: usize, maximum: usize) -> Option<ValidationError> {
    (length > maximum).then_some(ValidationError::TooLong {
        field,
        maximum,
        length,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validation(source: Value) -> Validation {
        serde_json::from_value(json!({
            "name": "local/tests",
            "description": "The tests pass",
            "mode": "required",
            "source": source,
            "timeout": TIMEOUT_DEFAULT,
        }))
        .unwrap()
    }

    #[test]
    fn a_validation_reads_back() {
        for source in [
            json!({"run": "cargo test"}),
            json!({"wraps": {"tool": "builtin/file-search", "input": {"pattern": "TODO"},
                "transform": "output.matches | length == 0"}}),
        ] {
            let validation = validation(source.clone());
            assert_eq!(validation.validate(), Ok(()));
            assert_eq!(serde_json::to_value(&validation).unwrap()["source"], source);
        }
    }

    #[test]
    fn every_problem_is_reported_with_its_key() {
        let mut wrong =
            validation(json!({"wraps": {"tool": "a/b", "input": [], "transform": " "}}));
        wrong.name = "builtin/x".parse().unwrap();
        wrong.description = String::new();
        wrong.timeout = TIMEOUT_MAXIMUM + 1;
        let fields: Vec<&str> = wrong
            .problems()
            .iter()
            .map(ValidationError::field)
            .collect();
        assert_eq!(
            fields,
            ["name", "description", "transform", "input", "timeout"]
        );
        wrong.timeout = 0;
        let last = wrong.problems().pop().unwrap();
        assert_eq!(
            last.to_string(),
            "`timeout` must be from 1 to 86400 seconds, not 0"
        );
        let long = validation(json!({"run": "x".repeat(TEXT_MAXIMUM + 1)}));
        assert_eq!(
            long.validate().unwrap_err().to_string(),
            "`run` may be 65536 bytes long, this one has 65537"
        );
    }

    #[test]
    fn the_stricter_mode_sorts_first() {
        assert!(ValidationMode::Required < ValidationMode::Informational);
    }
}
