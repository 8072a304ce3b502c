//! The lifecycle of a plan: its positions and the legal moves between them.
//!
//! `table` holds the only table of legal moves. `position` is the phase and state of a plan.
//! Neither knows storage, owners or commands: a caller asks a [`Position`] for the position
//! [`after`](Position::after) a [`Move`] and stores the result.

mod position;
mod table;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::DecisionId;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

pub use position::{ImpossiblePosition, Position, PositionParts};
pub use table::{IllegalMove, Move, MoveKind, Obstacle, PositionOutcome};

/// The maximum number of times a plan may go back to `strategize` from a later phase.
pub const MAX_REVERSIONS: u32 = 3;

text_enum! {
    /// Strategizing, working in the sandbox, applying the changes. Later phases compare as greater.
    Phase: "phase" {
        Strategize = "strategize",
        Execute = "execute",
        Apply = "apply",
    }
}

impl Phase {
    /// The phase that follows when this one completes.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Strategize => Some(Self::Execute),
            Self::Execute => Some(Self::Apply),
            Self::Apply => None,
        }
    }
}

text_enum! {
    /// The progress within a phase.
    PlanState: "state" {
        Queued = "queued",
        Processing = "processing",
        Complete = "complete",
        Errored = "errored",
        Cancelled = "cancelled",
        /// Stopped by a rule rather than a fault: failed validations, a merge conflict, a closed
        /// gate.
        Constrained = "constrained",
        Applied = "applied",
        /// Applied and then unapplied. The plan can be applied, reverted or corrected again.
        Unapplied = "unapplied",
    }
}

impl PlanState {
    /// Returns whether the plan is finished. Nothing happens to a finished plan unless the user
    /// requests it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Applied | Self::Cancelled | Self::Unapplied)
    }

    /// Returns whether a plan can have this state in `phase`.
    pub const fn is_legal_in(self, phase: Phase) -> bool {
        match self {
            Self::Complete => !matches!(phase, Phase::Apply),
            Self::Constrained => !matches!(phase, Phase::Strategize),
            Self::Applied | Self::Unapplied => matches!(phase, Phase::Apply),
            Self::Queued | Self::Processing | Self::Errored | Self::Cancelled => true,
        }
    }
}

text_enum! {
    WaitReasonKind: "kind of waiting" {
        Slot = "slot",
        Approval = "approval",
        Answer = "answer",
        Budget = "budget",
        Until = "until",
    }
}

/// A queued plan's reason for not running. A waiting plan has no owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// For one of the slots limited by `plan.concurrency`.
    Slot,
    /// For the user's approval.
    Approval {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionId>,
    },
    /// For the user's answer to a question.
    Answer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionId>,
    },
    /// For a larger budget.
    Budget,
    /// Until a point in time, such as a vendor's `Retry-After`.
    Until { until: Timestamp },
}

impl WaitReason {
    pub const fn kind(self) -> WaitReasonKind {
        match self {
            Self::Slot => WaitReasonKind::Slot,
            Self::Approval { .. } => WaitReasonKind::Approval,
            Self::Answer { .. } => WaitReasonKind::Answer,
            Self::Budget => WaitReasonKind::Budget,
            Self::Until { .. } => WaitReasonKind::Until,
        }
    }
}

text_enum! {
    /// Whether Apply has passed the write after which it can only go forward.
    PointOfNoReturn: "side of the point of no return" {
        Ahead = "ahead",
        Passed = "passed",
    }
}
