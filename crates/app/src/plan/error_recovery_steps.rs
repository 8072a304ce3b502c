//! The steps that can help against a recorded error.

use cleveragents_api::NextStep;
use cleveragents_api::plan::{PlanPrompt, PlanRevert, PlanRollback};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ErrorCategory, ErrorRecord, Phase, RecoveryAction, RequiredRollback};

use crate::next_steps::{apply_to_step, cancel_step, execute_step, rebase_step, tree_step};

/// A step that can help against an error, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecoveryStep {
    pub(crate) action: RecoveryAction,
    pub(crate) message: String,
    pub(crate) step: NextStep,
}

/// Returns whether to continue the plan as it is would end in the same error.
pub(crate) fn needs_change(error: &ErrorRecord) -> bool {
    error.rollback.is_some() || error.recovery == RecoveryAction::Revert
}

/// Returns the steps against an error of a plan with this destination, the most likely help first.
pub(crate) fn recovery_steps(error: &ErrorRecord, to: Option<&Destination>) -> Vec<RecoveryStep> {
    if let Some(rollback) = &error.rollback {
        // Everything else would end in the same error.
        return vec![rollback_step(error.plan_id, rollback)];
    }
    if !error.hints.is_empty() {
        let stored = error.hints.iter().map(|hint| RecoveryStep {
            action: hint.action,
            message: hint.message.clone(),
            step: NextStep::from(hint.command.as_str()),
        });
        return stored.collect();
    }
    let (first, second) = error.category.recoveries();
    let mut steps = vec![
        action_step(first, error, to),
        action_step(second, error, to),
    ];
    if error.category == ErrorCategory::TargetMoved {
        let merge = RecoveryStep {
            action: RecoveryAction::Retry,
            message: "Merge the result with what the target has now, and validate it again."
                .to_owned(),
            step: rebase_step(error.plan_id),
        };
        steps.insert(1, merge);
    }
    steps
}

fn action_step(
    action: RecoveryAction,
    error: &ErrorRecord,
    to: Option<&Destination>,
) -> RecoveryStep {
    let id = error.plan_id;
    let (message, step) = match action {
        RecoveryAction::Retry if error.phase == Phase::Apply => (
            "Apply the plan again, to its targets as they are now.",
            apply_to_step(id, to),
        ),
        RecoveryAction::Retry => ("Continue the plan.", execute_step(id)),
        RecoveryAction::Revert => (
            "Make another strategy that avoids this error.",
            NextStep::send(&PlanRevert {
                to_phase: Some(Phase::Strategize),
                ..PlanRevert::new(id)
            }),
        ),
        RecoveryAction::Correct => (
            "Find the decision that led here, then correct it.",
            tree_step(id),
        ),
        RecoveryAction::Prompt => (
            "Send guidance to the plan; replace the text in quotes.",
            NextStep::send(&PlanPrompt {
                plan: id.into(),
                guidance: "Try another way".to_owned(),
            }),
        ),
        RecoveryAction::Cancel => ("Cancel the plan; its sandbox is kept.", cancel_step(id)),
        RecoveryAction::Manual => (
            "Fix the problem outside the plan, then resume it.",
            "agents diagnostics".into(),
        ),
    };
    RecoveryStep {
        action,
        message: message.to_owned(),
        step,
    }
}

fn rollback_step(plan: PlanId, rollback: &RequiredRollback) -> RecoveryStep {
    let call = rollback.call_number;
    RecoveryStep {
        action: RecoveryAction::Retry,
        message: format!("Roll back to before call {call}, which is then repeated."),
        step: NextStep::send(&PlanRollback {
            plan: plan.into(),
            checkpoint: rollback.checkpoint.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::error_record::StoredHint;
    use cleveragents_domain::{NewError, Timestamp};

    use super::*;

    const PLAN: &str = "01JZZZZZZZ0000000000ABCDEF";

    fn record(category: ErrorCategory) -> ErrorRecord {
        let new = NewError {
            plan_id: PLAN.parse().unwrap(),
            category,
            message: "connection reset".to_owned(),
            phase: Phase::Apply,
            step: None,
            attempt: 1,
            cause_chain: Vec::new(),
        };
        ErrorRecord::new(new, PLAN.parse().unwrap(), Timestamp::default())
    }

    fn requests(error: &ErrorRecord) -> Vec<String> {
        let name = |it: RecoveryStep| match it.step {
            NextStep::Request { name, .. } => name,
            NextStep::Text { text } => text,
            NextStep::Watch { .. } => "watch".to_owned(),
        };
        recovery_steps(error, None).into_iter().map(name).collect()
    }

    #[test]
    fn the_steps_of_every_category_begin_with_its_recovery() {
        for category in ErrorCategory::ALL.iter().copied() {
            let error = record(category);
            assert_eq!(recovery_steps(&error, None)[0].action, error.recovery);
        }
        for category in [ErrorCategory::Resource, ErrorCategory::MergeConflict] {
            assert_eq!(requests(&record(category)), ["plan.revert", "plan.apply"]);
        }
        assert_eq!(
            requests(&record(ErrorCategory::TargetMoved)),
            ["plan.apply", "plan.rebase", "plan.cancel"]
        );
    }

    #[test]
    fn a_required_rollback_is_the_only_step() {
        let error = ErrorRecord {
            rollback: Some(RequiredRollback {
                call_number: 4,
                checkpoint: "3".to_owned(),
            }),
            ..record(ErrorCategory::Tool)
        };
        assert_eq!(requests(&error), ["plan.rollback"]);
    }

    #[test]
    fn the_commands_of_an_old_record_are_kept() {
        let error = ErrorRecord {
            hints: vec![StoredHint {
                action: RecoveryAction::Retry,
                message: "Continue the plan.".to_owned(),
                command: format!("agents plan execute {PLAN}"),
            }],
            ..record(ErrorCategory::Tool)
        };
        assert_eq!(requests(&error), [format!("agents plan execute {PLAN}")]);
    }
}
