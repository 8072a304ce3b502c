//! The error history of a plan: what failed, and how it is recovered.

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
        /// Another program changed a target after Apply had prepared its writes.
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

/// A command that could help, as earlier versions stored it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredHint {
    pub action: RecoveryAction,
    pub message: String,
    pub command: String,
}

/// The rollback that a plan needs because a call must be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredRollback {
    pub call_number: i64,
    /// A checkpoint before the call: its number or its id, as a request names it.
    pub checkpoint: String,
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

    /// The recovery used when nothing more specific is known.
    pub const fn default_recovery(self) -> RecoveryAction {
        self.recoveries().0
    }

    /// The preferred recovery and the alternative.
    pub const fn recoveries(self) -> (RecoveryAction, RecoveryAction) {
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
    /// If set, nothing else helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RequiredRollback>,
    /// Empty unless an earlier version wrote the record. Always serialised, because earlier
    /// versions require it.
    pub hints: Vec<StoredHint>,
    /// Number of occurrences of this exact error.
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
    /// Creates the first occurrence, with the recovery of its category.
    pub fn new(new: NewError, id: ErrorId, at: Timestamp) -> Self {
        Self {
            id,
            recovery: new.category.default_recovery(),
            rollback: None,
            hints: Vec::new(),
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
    fn a_record_has_the_preferred_recovery_of_its_category() {
        for category in ErrorCategory::ALL.iter().copied() {
            let (first, second) = category.recoveries();
            assert_ne!(first, second);
            assert_eq!(record(category).recovery, first);
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
        let required = RequiredRollback {
            call_number: 4,
            checkpoint: "3".to_owned(),
        };
        for (sequence, rollback) in [(None, None), (Some(3), Some(required))] {
            let record = ErrorRecord {
                sequence,
                rollback,
                ..record(ErrorCategory::RateLimit)
            };
            let json = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<ErrorRecord>(&json).unwrap(), record);
        }
    }
}
