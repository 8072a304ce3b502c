//! Results of validations.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApplicableValidation, AttachmentScopeKind, ValidationMode};
use crate::id::AttachmentId;
use crate::name::NamespacedName;

/// The maximum length of the message kept from a command's output, in characters.
const MESSAGE_MAXIMUM: usize = 2_000;

/// Whether a validation passed, with its message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationVerdict {
    pub passed: bool,
    pub message: Option<String>,
    pub data: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidationExit {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut {
        seconds: u64,
    },
    /// It never started, or was stopped from outside.
    Failed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    pub exit: ValidationExit,
    pub stdout: String,
    pub stderr: String,
}

impl ValidationVerdict {
    /// A validation that could not run counts as failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            passed: false,
            message: Some(shorten(&message.into())),
            data: None,
        }
    }

    /// A command passes by exiting with 0, unless its last line is a JSON object with a boolean
    /// `passed`, which then decides. A command that did not exit by itself never passes.
    pub fn from_command(outcome: &CommandOutcome) -> Self {
        let code = match &outcome.exit {
            ValidationExit::Exited { code } => *code,
            ValidationExit::Signalled { signal } => {
                return Self::failed(format!("the command was killed by signal {signal}"));
            }
            ValidationExit::TimedOut { seconds } => {
                return Self::failed(format!("the command took longer than {seconds} seconds"));
            }
            ValidationExit::Failed { reason } => return Self::failed(reason),
        };
        if let Some(said) = last_line(&outcome.stdout).and_then(Self::from_line) {
            return said;
        }
        if code == 0 {
            return Self {
                passed: true,
                message: None,
                data: None,
            };
        }
        let said = [&outcome.stderr, &outcome.stdout]
            .into_iter()
            .find(|text| !text.trim().is_empty());
        Self::failed(match said {
            Some(text) => format!("exit code {code}: {}", tail(text.trim())),
            None => format!("exit code {code}"),
        })
    }

    fn from_line(line: &str) -> Option<Self> {
        if !line.starts_with('{') {
            return None;
        }
        Self::from_json(&serde_json::from_str(line).ok()?)
    }

    /// Accepts a boolean or an object with a boolean `passed`; returns `None` for anything else.
    pub fn from_json(value: &Value) -> Option<Self> {
        let passed = match value {
            Value::Bool(passed) => *passed,
            other => other.get("passed")?.as_bool()?,
        };
        let message = value.get("message").filter(|message| !message.is_null());
        Some(Self {
            passed,
            message: message.map(|message| match message {
                Value::String(text) => shorten(text),
                other => shorten(&other.to_string()),
            }),
            data: value.get("data").filter(|data| !data.is_null()).cloned(),
        })
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Keeps the beginning of a text, where a sentence has its main point.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAXIMUM) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Keeps the end of a text, where a command reports what went wrong.
fn tail(text: &str) -> String {
    match text.char_indices().rev().nth(MESSAGE_MAXIMUM / 2) {
        Some((cut, _)) => format!("…{}", &text[cut..]),
        None => text.to_owned(),
    }
}

/// One run of a validation: what ran, its attempt number and its duration.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedValidation {
    pub verdict: ValidationVerdict,
    /// Counted from 1.
    pub attempt: u32,
    pub duration_ms: u64,
}

/// The result of one validation on one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationResult {
    pub validation: NamespacedName,
    pub mode: ValidationMode,
    pub passed: bool,
    pub message: Option<String>,
    pub data: Option<Value>,
    pub duration_ms: u64,
    /// Counted from 1.
    pub attempt: u32,
    pub attachment_id: AttachmentId,
    pub attachment_resource: NamespacedName,
    pub attachment_scope: AttachmentScopeKind,
    /// The project or plan; `None` if the scope is direct.
    pub attachment_scope_target: Option<String>,
}

impl ValidationResult {
    pub fn new(applicable: &ApplicableValidation, finished: FinishedValidation) -> Self {
        let FinishedValidation {
            verdict,
            attempt,
            duration_ms,
        } = finished;
        Self {
            validation: applicable.validation.name.clone(),
            mode: applicable.validation.mode,
            passed: verdict.passed,
            message: verdict.message,
            data: verdict.data,
            duration_ms,
            attempt,
            attachment_id: applicable.attachment.id,
            attachment_resource: applicable.resource.clone(),
            attachment_scope: applicable.attachment.scope.kind(),
            attachment_scope_target: applicable.attachment.scope.target(),
        }
    }
}

/// The results of all validations of a plan. Apply consults only this.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ValidationSummary {
    pub required_passed: u64,
    pub required_failed: u64,
    pub informational_passed: u64,
    pub informational_failed: u64,
    /// Ordered by resource, mode and validation.
    pub results: Vec<ValidationResult>,
}

impl ValidationSummary {
    /// Builds the summary from results in any order.
    pub fn new(mut results: Vec<ValidationResult>) -> Self {
        results.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        let mut summary = Self::default();
        for result in &results {
            let count = match (result.mode, result.passed) {
                (ValidationMode::Required, true) => &mut summary.required_passed,
                (ValidationMode::Required, false) => &mut summary.required_failed,
                (ValidationMode::Informational, true) => &mut summary.informational_passed,
                (ValidationMode::Informational, false) => &mut summary.informational_failed,
            };
            *count += 1;
        }
        summary.results = results;
        summary
    }

    /// The failed required validations, in one line.
    pub fn required_failures(&self) -> String {
        let failed =
            |result: &&ValidationResult| !result.passed && result.mode == ValidationMode::Required;
        let failures: Vec<String> = self
            .results
            .iter()
            .filter(failed)
            .map(ToString::to_string)
            .collect();
        failures.join("; ")
    }

    pub fn permits_apply(&self) -> bool {
        self.required_failed == 0
    }
}

impl fmt::Display for ValidationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = if self.passed { "passed" } else { "failed" };
        write!(
            f,
            "{} {said} on {}",
            self.validation, self.attachment_resource
        )?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl ValidationResult {
    fn sort_key(&self) -> impl Ord {
        (
            self.attachment_resource.to_string(),
            self.mode,
            self.validation.to_string(),
            self.attachment_id,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(ending: ValidationExit, stdout: &str, stderr: &str) -> ValidationVerdict {
        ValidationVerdict::from_command(&CommandOutcome {
            exit: ending,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        })
    }

    fn exit_verdict(code: i32, stdout: &str) -> ValidationVerdict {
        verdict(ValidationExit::Exited { code }, stdout, "")
    }

    #[test]
    fn a_command_passes_by_its_exit_code() {
        let passed = exit_verdict(0, "fine\n");
        assert!(passed.passed && passed.message.is_none());
        let failed = verdict(ValidationExit::Exited { code: 7 }, "out", "oh\nno\n");
        assert!(!failed.passed);
        assert_eq!(failed.message.as_deref(), Some("exit code 7: oh\nno"));
        assert_eq!(
            exit_verdict(7, "out").message.as_deref(),
            Some("exit code 7: out")
        );
        assert_eq!(
            exit_verdict(7, " \n").message.as_deref(),
            Some("exit code 7")
        );
    }

    #[test]
    fn a_last_line_of_json_decides() {
        let no = exit_verdict(
            0,
            "a\n{\"passed\": false, \"message\": \"81 %\", \"data\": {\"is\": 81}}\n\n",
        );
        assert_eq!(
            no,
            ValidationVerdict {
                passed: false,
                message: Some("81 %".to_owned()),
                data: Some(json!({"is": 81})),
            }
        );
        assert!(exit_verdict(1, "{\"passed\": true}").passed);
        for not_a_verdict in [
            "{\"passed\": \"yes\"}",
            "{\"passed\": true",
            "{\"ok\": true}",
            "true",
            "{\"passed\": false}\nthe end",
        ] {
            assert!(exit_verdict(0, not_a_verdict).passed, "{not_a_verdict}");
            assert!(!exit_verdict(1, not_a_verdict).passed, "{not_a_verdict}");
        }
    }

    #[test]
    fn an_interrupted_command_never_passes() {
        for (ending, said) in [
            (
                ValidationExit::TimedOut { seconds: 5 },
                "the command took longer than 5 seconds",
            ),
            (
                ValidationExit::Signalled { signal: 9 },
                "the command was killed by signal 9",
            ),
            (
                ValidationExit::Failed {
                    reason: "there is no shell".to_owned(),
                },
                "there is no shell",
            ),
        ] {
            let verdict = verdict(ending, "{\"passed\": true}", "");
            assert!(!verdict.passed);
            assert_eq!(verdict.message.as_deref(), Some(said));
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let said = |verdict: ValidationVerdict| verdict.message.unwrap().chars().count();
        let much = "é".repeat(1 << 20);
        assert!(said(exit_verdict(1, &much)) < 1_100);
        let line = json!({"passed": false, "message": much}).to_string();
        assert_eq!(said(exit_verdict(1, &line)), MESSAGE_MAXIMUM + 1);
        assert_eq!(said(ValidationVerdict::failed(much)), MESSAGE_MAXIMUM + 1);
    }

    #[test]
    fn a_message_and_data_of_any_kind_are_kept() {
        let verdict =
            ValidationVerdict::from_json(&json!({"passed": true, "message": 3, "data": null}));
        assert_eq!(
            verdict,
            Some(ValidationVerdict {
                passed: true,
                message: Some("3".to_owned()),
                data: None,
            })
        );
        assert_eq!(ValidationVerdict::from_json(&json!(["passed"])), None);
        assert_eq!(ValidationVerdict::from_json(&json!(1)), None);
    }

    fn result(resource: &str, mode: ValidationMode, name: &str, passed: bool) -> ValidationResult {
        ValidationResult {
            validation: name.parse().unwrap(),
            mode,
            passed,
            message: None,
            data: None,
            duration_ms: 1,
            attempt: 1,
            attachment_id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            attachment_resource: resource.parse().unwrap(),
            attachment_scope: AttachmentScopeKind::Direct,
            attachment_scope_target: None,
        }
    }

    #[test]
    fn a_summary_counts_and_orders() {
        use ValidationMode::{Informational, Required};
        let summary = ValidationSummary::new(vec![
            result("b", Required, "tests", true),
            result("a", Informational, "a-lint", false),
            result("a", Required, "tests", false),
            result("a", Required, "build", true),
            result("a", Informational, "size", true),
        ]);
        let order: Vec<String> = summary
            .results
            .iter()
            .map(|each| {
                format!(
                    "{} {} {}",
                    each.attachment_resource, each.mode, each.validation
                )
            })
            .collect();
        assert_eq!(
            order,
            [
                "local/a required local/build",
                "local/a required local/tests",
                "local/a informational local/a-lint",
                "local/a informational local/size",
                "local/b required local/tests",
            ]
        );
        let counts = (
            summary.required_passed,
            summary.required_failed,
            summary.informational_passed,
            summary.informational_failed,
        );
        assert_eq!(counts, (2, 1, 1, 1));
        assert!(!summary.permits_apply());
        assert!(ValidationSummary::default().permits_apply());
    }

    #[test]
    fn a_result_has_its_documented_keys() {
        let json = serde_json::to_value(result("a", ValidationMode::Required, "t", true)).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let mut expected = [
            "validation",
            "mode",
            "passed",
            "message",
            "data",
            "duration_ms",
            "attempt",
            "attachment_id",
            "attachment_resource",
            "attachment_scope",
            "attachment_scope_target",
        ];
        expected.sort_unstable();
        assert_eq!(keys, expected);
    }
}
