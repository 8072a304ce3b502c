//! The lifecycle of a plan: where it can stand and which moves are legal.
//!
//! `table` holds the one table of legal moves; nothing else decides. `position` is where a plan
//! stands. Neither knows of storage, owners or commands: a caller asks a [`Position`] what it
//! would be [`after`](Position::after) a [`Move`] and writes down the answer.

mod position;
mod table;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::id::DecisionId;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

pub use position::{ImpossiblePosition, Position, PositionParts};
pub use table::{IllegalMove, Move, MoveKind, Obstacle, PositionOutcome};

/// How often a plan may go back to `strategize` from a later phase.
pub const MAX_REVERSIONS: u32 = 3;

text_enum! {
    /// What is being done: thinking, working in the sandbox, bringing the work home. Later phases
    /// compare as greater.
    Phase: "phase" {
        Strategize = "strategize",
        Execute = "execute",
        Apply = "apply",
    }
}

impl Phase {
    /// The phase that follows when this one is complete.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Strategize => Some(Self::Execute),
            Self::Execute => Some(Self::Apply),
            Self::Apply => None,
        }
    }
}

text_enum! {
    /// How far the phase has come.
    PlanState: "state" {
        Queued = "queued",
        Processing = "processing",
        Complete = "complete",
        Errored = "errored",
        Cancelled = "cancelled",
        /// Stopped by a rule, not by a fault: failed validations, a merge conflict, a closed gate.
        Constrained = "constrained",
        Applied = "applied",
        /// Applied, and taken back out again. It can be applied, reverted or corrected anew.
        Unapplied = "unapplied",
    }
}

impl PlanState {
    /// Whether the plan counts as finished: nothing is done for it unless a user asks for it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Applied | Self::Cancelled | Self::Unapplied)
    }

    /// Whether a plan can be in this state while in `phase`.
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
    /// What a waiting plan waits for.
    WaitReasonKind: "kind of waiting" {
        Slot = "slot",
        Approval = "approval",
        Answer = "answer",
        Budget = "budget",
        Until = "until",
    }
}

/// Why a queued plan is not being worked on. Nobody owns it while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// For one of the places bounded by `plan.concurrency`.
    Slot,
    /// For a human's yes.
    Approval {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionId>,
    },
    /// For a human's answer to a question.
    Answer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionId>,
    },
    /// For a larger budget.
    Budget,
    /// For a time to come, such as a vendor's `Retry-After`.
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
    /// Where Apply stands to the write after which it only goes forward.
    PointOfNoReturn: "side of the point of no return" {
        Ahead = "ahead",
        Passed = "passed",
    }
}
