//! Corrections: attempts to change a decision and its consequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{CorrectionId, DecisionId, PlanId};
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// One attempt. The record is kept whatever the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    pub id: CorrectionId,
    pub plan_id: PlanId,
    pub original_decision_id: DecisionId,
    /// The replacement decision, once it is made.
    pub new_decision_id: Option<DecisionId>,
    pub mode: CorrectionMode,
    pub guidance: String,
    /// The affected decisions, nearest first. The corrected decision itself comes first.
    pub affected: Vec<DecisionId>,
    pub state: CorrectionState,
    pub created_at: Timestamp,
    /// When the state became `complete` or `failed`.
    pub completed_at: Option<Timestamp>,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

text_enum! {
    /// The effect on the corrected decision.
    CorrectionMode: "correction mode" {
        /// The decision and its consequences are superseded and made again.
        Revert = "revert",
        /// Everything is kept; the guidance is added as a new decision.
        Append = "append",
    }
}

text_enum! {
    CorrectionState: "correction state" {
        Pending = "pending",
        Executing = "executing",
        Complete = "complete",
        Failed = "failed",
    }
}

/// An illegal state transition of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a correction that is {from} cannot become {to}")]
pub struct IllegalCorrectionTransition {
    pub from: CorrectionState,
    pub to: CorrectionState,
}

impl CorrectionState {
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

impl Correction {
    /// Returns this correction in its next state. The version is unchanged; the store increments
    /// it.
    pub fn transition(
        &self,
        to: CorrectionState,
        at: Timestamp,
    ) -> Result<Self, IllegalCorrectionTransition> {
        let from = self.state;
        match (from, to) {
            (CorrectionState::Pending, CorrectionState::Executing | CorrectionState::Failed)
            | (CorrectionState::Executing, CorrectionState::Complete | CorrectionState::Failed) => {
                Ok(Self {
                    state: to,
                    completed_at: to.is_final().then_some(at),
                    ..self.clone()
                })
            }
            _ => Err(IllegalCorrectionTransition { from, to }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01JZZZZZZZ0000000000ABCDEF";

    fn correction(state: CorrectionState) -> Correction {
        Correction {
            id: ID.parse().unwrap(),
            plan_id: ID.parse().unwrap(),
            original_decision_id: ID.parse().unwrap(),
            new_decision_id: None,
            mode: CorrectionMode::Revert,
            guidance: "Begin with src/price.rs".to_owned(),
            affected: vec![ID.parse().unwrap()],
            state,
            created_at: Timestamp::default(),
            completed_at: None,
            version: 1,
        }
    }

    #[test]
    fn a_correction_ends_complete_or_failed() {
        use CorrectionState::{Complete, Executing, Failed, Pending};
        let legal = [
            (Pending, Executing),
            (Pending, Failed),
            (Executing, Complete),
            (Executing, Failed),
        ];
        for from in CorrectionState::ALL.iter().copied() {
            for to in CorrectionState::ALL.iter().copied() {
                let stepped = correction(from).transition(to, Timestamp::from_micros(7));
                assert_eq!(stepped.is_ok(), legal.contains(&(from, to)), "{from} {to}");
                if let Ok(stepped) = stepped {
                    assert_eq!(stepped.completed_at.is_some(), to.is_final());
                }
            }
        }
        assert_eq!(
            correction(Failed)
                .transition(Pending, Timestamp::default())
                .unwrap_err()
                .to_string(),
            "a correction that is failed cannot become pending"
        );
    }

    #[test]
    fn a_correction_reads_back() {
        let correction = correction(CorrectionState::Pending);
        let json = serde_json::to_string(&correction).unwrap();
        assert_eq!(
            serde_json::from_str::<Correction>(&json).unwrap(),
            correction
        );
    }
}
