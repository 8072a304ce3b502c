//! Approvals that the user gave for work that is not done yet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_record::{Author, Destination};
use crate::lifecycle::{Move, Phase};

/// The approvals of a plan. They are stored with it, so that any process that runs the plan later
/// has them. A plan that fails keeps them for `plan resume`, which continues what was approved. A
/// plan that a rule stops, or that the user sends back, loses them: what comes after that is not
/// what the user approved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PendingApprovals {
    /// The user who approved the strategy before it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The number of tool calls that may pass the gate they wait at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
    /// The apply that follows Execute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApprovedApply>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovedApply {
    pub by: String,
    pub destination: Destination,
    /// Author of the commits. Git's configured user if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// The reason to apply the plan although required checks fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PendingApprovals {
    /// Adds approvals to these. A new one replaces an older one of the same kind.
    pub fn add(&mut self, new: Self) {
        self.strategy = new.strategy.or(self.strategy.take());
        self.calls = self.calls.max(new.calls);
        self.apply = new.apply.or(self.apply.take());
    }

    /// Withdraws the approval of the apply, because the result is no longer the one that the user
    /// approved. Returns whether there was one.
    pub fn withdraw_apply(&mut self) -> bool {
        self.apply.take().is_some()
    }

    /// Returns the approvals that are left after a move of the plan.
    pub(crate) fn after(&self, requested: Move) -> Self {
        match requested {
            Move::Start
            | Move::Complete
            | Move::Decide
            | Move::Wait(_)
            | Move::Resume
            | Move::Retry
            | Move::Advance(Phase::Strategize | Phase::Apply) => self.clone(),
            Move::Advance(Phase::Execute) => Self {
                strategy: None,
                ..self.clone()
            },
            // The calls were approved for the work that failed.
            Move::Fail => Self {
                calls: 0,
                ..self.clone()
            },
            Move::Constrain
            | Move::Apply
            | Move::Abort
            | Move::Unapply
            | Move::Revert
            | Move::Correct(_)
            | Move::Cancel => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> PendingApprovals {
        PendingApprovals {
            strategy: Some("ada".to_owned()),
            calls: 1,
            apply: Some(ApprovedApply {
                by: "ada".to_owned(),
                destination: Destination::Current,
                author: None,
                forced: None,
            }),
        }
    }

    #[test]
    fn a_plan_that_stops_or_goes_back_loses_its_approvals() {
        let ends = [
            Move::Constrain,
            Move::Apply,
            Move::Abort,
            Move::Unapply,
            Move::Revert,
            Move::Correct(Phase::Execute),
            Move::Cancel,
        ];
        for requested in ends {
            let left = all().after(requested);
            assert_eq!(left, PendingApprovals::default(), "{requested:?}");
        }
    }

    #[test]
    fn a_plan_that_fails_keeps_the_approvals_of_what_follows() {
        let left = all().after(Move::Fail);
        assert_eq!(left, PendingApprovals { calls: 0, ..all() });
    }

    #[test]
    fn an_approved_strategy_is_used_once() {
        let executing = all().after(Move::Advance(Phase::Execute));
        assert_eq!(executing.strategy, None);
        assert_eq!(executing.apply, all().apply);
        assert_eq!(all().after(Move::Complete), all());
    }

    #[test]
    fn an_approval_is_added_to_earlier_ones() {
        let mut approvals = all();
        approvals.add(PendingApprovals {
            calls: 1,
            ..PendingApprovals::default()
        });
        assert_eq!(approvals, all());
        approvals.add(PendingApprovals {
            strategy: Some("bob".to_owned()),
            ..PendingApprovals::default()
        });
        assert_eq!(approvals.strategy.as_deref(), Some("bob"));
    }
}
