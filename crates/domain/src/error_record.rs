//! The error history of a plan: what failed, how it is recovered, and which commands can help.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::id::{ErrorId, PlanId};
use crate::lifecycle::Phase;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

text_enum! {
    ErrorCategory: "error category" {
        TransientNetwork = "transient_network",
        RateLimit = "rate_limit",
        Auth = "auth",
        Timeout = "timeout",
        Tool = "tool",
        Validation = "validation",
        Resource = "resource",
        MergeConflict = "merge_conflict",
        /// A target was changed by somebody else after Apply had decided what to write.
        TargetMoved = "target_moved",
        ModelOutput = "model_output",
        Budget = "budget",
        Internal = "internal",
    }
}

text_enum! {
    /// The recovery from an error.
    RecoveryAction: "recovery" {
        /// Retry the same work later.
        Retry = "retry",
        /// Go back to `strategize`.
        Revert = "revert",
        /// Correct one of the plan's decisions.
        Correct = "correct",
        /// Ask the user for guidance.
        Prompt = "prompt",
        Cancel = "cancel",
        /// The user must fix something outside the plan first.
        Manual = "manual",
    }
}

/// A command that could help, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryHint {
    pub action: RecoveryAction,
    pub message: String,
    pub command: String,
}

impl ErrorCategory {
    /// Returns whether the error may disappear by waiting, so that it is retried with backoff.
    /// Wrong credentials do not become valid by waiting, and work that may have had an effect is
    /// never repeated blindly.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::TransientNetwork | Self::RateLimit | Self::Timeout
        )
    }

    /// The recovery used when nothing more specific is known: the first of the hints.
    pub const fn default_recovery(self) -> RecoveryAction {
        self.recoveries().0
    }

    /// The preferred recovery and the alternative.
    const fn recoveries(self) -> (RecoveryAction, RecoveryAction) {
        match self {
            Self::TransientNetwork | Self::RateLimit | Self::Timeout => {
                (RecoveryAction::Retry, RecoveryAction::Cancel)
            }
            Self::ModelOutput => (RecoveryAction::Retry, RecoveryAction::Prompt),
            Self::Auth | Self::Budget | Self::Internal => {
                (RecoveryAction::Manual, RecoveryAction::Retry)
            }
            Self::Tool => (RecoveryAction::Prompt, RecoveryAction::Retry),
            Self::Validation => (RecoveryAction::Correct, RecoveryAction::Prompt),
            Self::TargetMoved => (RecoveryAction::Retry, RecoveryAction::Cancel),
            Self::Resource | Self::MergeConflict => (RecoveryAction::Revert, RecoveryAction::Retry),
        }
    }

    /// Returns commands for the user, the most likely help first.
    pub fn hints(self, plan: PlanId, phase: Phase) -> Vec<RecoveryHint> {
        let (first, second) = self.recoveries();
        let mut hints = vec![first.hint(plan, phase), second.hint(plan, phase)];
        if self == Self::TargetMoved {
            let hint = RecoveryHint {
                action: RecoveryAction::Retry,
                message: "Merge the result with what the target has now, and validate it again."
                    .to_owned(),
                command: format!("agents plan rebase {plan}"),
            };
            hints.insert(1, hint);
        }
        hints
    }
}

impl RecoveryAction {
    fn hint(self, plan: PlanId, phase: Phase) -> RecoveryHint {
        let (message, command) = match self {
            Self::Retry if phase == Phase::Apply => (
                "Apply the plan again, to its targets as they are now.",
                format!("agents plan apply {plan}"),
            ),
            Self::Retry => ("Continue the plan.", format!("agents plan execute {plan}")),
            Self::Revert => (
                "Make another strategy that avoids this error.",
                format!("agents plan revert {plan} --to-phase strategize"),
            ),
            Self::Correct => (
                "Find the decision that led here, then change it with `agents plan correct`.",
                format!("agents plan tree {plan}"),
            ),
            Self::Prompt => (
                "Send guidance to the plan; replace the text in quotes.",
                format!("agents plan prompt {plan} \"Try another way\""),
            ),
            Self::Cancel => (
                "Cancel the plan; its sandbox is kept.",
                format!("agents plan cancel {plan}"),
            ),
            Self::Manual => (
                "Fix the problem outside the plan, then resume it.",
                "agents diagnostics".to_owned(),
            ),
        };
        RecoveryHint {
            action: self,
            message: message.to_owned(),
            command,
        }
    }
}

/// An entry of a plan's error history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    pub id: ErrorId,
    pub plan_id: PlanId,
    /// Position among the plan's errors in the order of their first occurrence: 1, 2, 3 … `None`
    /// before it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    pub category: ErrorCategory,
    pub message: String,
    pub phase: Phase,
    /// Counted from 1; `None` outside a step.
    pub step: Option<u32>,
    pub attempt: u32,
    /// The cause of the error, then the cause of that cause, and so on.
    pub cause_chain: Vec<String>,
    pub recovery: RecoveryAction,
    pub hints: Vec<RecoveryHint>,
    /// How often this exact error occurred.
    pub occurrences: u64,
    /// The time of the last occurrence.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewError {
    pub plan_id: PlanId,
    pub category: ErrorCategory,
    pub message: String,
    pub phase: Phase,
    pub step: Option<u32>,
    pub attempt: u32,
    pub cause_chain: Vec<String>,
}

impl ErrorRecord {
    /// Creates the first occurrence, with the recovery and hints of its category.
    pub fn new(new: NewError, id: ErrorId, at: Timestamp) -> Self {
        Self {
            id,
            recovery: new.category.default_recovery(),
            hints: new.category.hints(new.plan_id, new.phase),
            plan_id: new.plan_id,
            sequence: None,
            category: new.category,
            message: new.message,
            phase: new.phase,
            step: new.step,
            attempt: new.attempt,
            cause_chain: new.cause_chain,
            occurrences: 1,
            at,
        }
    }

    /// Returns the hints of this error, or `None` if it has only those of its category.
    pub fn own_hints(&self) -> Option<&[RecoveryHint]> {
        let common = self.category.hints(self.plan_id, self.phase);
        (self.hints != common).then_some(&self.hints)
    }

    /// Identifies equal errors of a plan: category, phase, step and message. Identical repeats are
    /// counted, not listed.
    pub fn identity_key(&self) -> String {
        json!([self.category, self.phase, self.step, self.message]).to_string()
    }

    /// Returns this record with one more occurrence at `at`.
    pub fn with_occurrence(&self, at: Timestamp) -> Self {
        Self {
            occurrences: self.occurrences.saturating_add(1),
            at,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "01JZZZZZZZ0000000000ABCDEF";

    fn record(category: ErrorCategory) -> ErrorRecord {
        let new = NewError {
            plan_id: PLAN.parse().unwrap(),
            category,
            message: "connection reset".to_owned(),
            phase: Phase::Execute,
            step: Some(2),
            attempt: 1,
            cause_chain: vec!["reset by peer".to_owned()],
        };
        ErrorRecord::new(new, PLAN.parse().unwrap(), Timestamp::from_micros(1))
    }

    #[test]
    fn the_names_match_the_design() {
        let categories: Vec<&str> = ErrorCategory::ALL
            .iter()
            .map(|each| each.as_str())
            .collect();
        assert_eq!(
            categories.join(", "),
            "transient_network, rate_limit, auth, timeout, tool, validation, resource, \
             merge_conflict, target_moved, model_output, budget, internal"
        );
        let recoveries: Vec<&str> = RecoveryAction::ALL
            .iter()
            .map(|each| each.as_str())
            .collect();
        assert_eq!(
            recoveries.join(", "),
            "retry, revert, correct, prompt, cancel, manual"
        );
    }

    #[test]
    fn only_temporary_errors_are_transient_and_retried() {
        let transient: Vec<&str> = ErrorCategory::ALL
            .iter()
            .filter(|category| category.is_transient())
            .map(|category| category.as_str())
            .collect();
        assert_eq!(transient, ["transient_network", "rate_limit", "timeout"]);
        for category in ErrorCategory::ALL.iter().filter(|each| each.is_transient()) {
            assert_eq!(category.default_recovery(), RecoveryAction::Retry);
        }
    }

    #[test]
    fn every_category_has_hints_that_begin_with_its_recovery() {
        for category in ErrorCategory::ALL.iter().copied() {
            let record = record(category);
            assert_eq!(record.recovery, category.default_recovery());
            assert_eq!(record.hints[0].action, record.recovery);
            for hint in &record.hints {
                assert!(hint.command.starts_with("agents "), "{}", hint.command);
                assert!(!hint.command.contains('<'), "{}", hint.command);
            }
        }
    }

    #[test]
    fn a_conflict_hints_at_reverting() {
        for category in [ErrorCategory::Resource, ErrorCategory::MergeConflict] {
            assert_eq!(
                record(category).hints[0].command,
                format!("agents plan revert {PLAN} --to-phase strategize")
            );
        }
    }

    #[test]
    fn identical_repeats_are_counted() {
        let first = record(ErrorCategory::Timeout);
        let again = first.with_occurrence(Timestamp::from_micros(9));
        assert_eq!((first.occurrences, again.occurrences), (1, 2));
        assert_eq!(again.at, Timestamp::from_micros(9));
        assert_eq!(first.identity_key(), again.identity_key());
    }

    #[test]
    fn each_identity_field_distinguishes_errors() {
        let first = record(ErrorCategory::Timeout);
        let mut others = vec![record(ErrorCategory::Tool)];
        others.push(ErrorRecord {
            phase: Phase::Apply,
            ..first.clone()
        });
        others.push(ErrorRecord {
            step: None,
            ..first.clone()
        });
        others.push(ErrorRecord {
            message: "connection refused".to_owned(),
            ..first.clone()
        });
        for other in others {
            assert_ne!(other.identity_key(), first.identity_key());
        }
        let later_attempt = ErrorRecord {
            attempt: 2,
            ..first.clone()
        };
        assert_eq!(later_attempt.identity_key(), first.identity_key());
    }

    #[test]
    fn a_record_reads_back() {
        for sequence in [None, Some(3)] {
            let record = ErrorRecord {
                sequence,
                ..record(ErrorCategory::RateLimit)
            };
            let json = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<ErrorRecord>(&json).unwrap(), record);
        }
    }
}
