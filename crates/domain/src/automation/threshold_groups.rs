//! User-facing descriptions and groups of the thresholds.

use super::ThresholdName;
use crate::text_enum::text_enum;

text_enum! {
    /// Thresholds with a common topic.
    ThresholdGroup: "group of thresholds" {
        PhaseTransitions = "phase_transitions",
        DecisionAutomation = "decision_automation",
        SelfRepair = "self_repair",
        ExecutionControls = "execution_controls",
    }
}

impl ThresholdGroup {
    /// Returns the group's thresholds in the order of [`ThresholdName`].
    pub fn thresholds(self) -> impl Iterator<Item = ThresholdName> {
        let all = ThresholdName::ALL.iter().copied();
        all.filter(move |name| name.group() == self)
    }
}

impl ThresholdName {
    pub const fn group(self) -> ThresholdGroup {
        match self {
            Self::StartStrategize | Self::StartExecute | Self::StartApply => {
                ThresholdGroup::PhaseTransitions
            }
            Self::DecideInStrategize | Self::DecideInExecute => ThresholdGroup::DecisionAutomation,
            Self::RepairValidation
            | Self::RevertFromExecute
            | Self::RevertFromApply
            | Self::RetryTransientError
            | Self::RestoreCheckpoint => ThresholdGroup::SelfRepair,
            Self::CreateChildPlan => ThresholdGroup::ExecutionControls,
        }
    }

    /// Describes what a plan may not do without approval while the confidence is below the
    /// threshold.
    pub const fn description(self) -> &'static str {
        match self {
            Self::StartStrategize => "start Strategize when the plan is created",
            Self::StartExecute => "start Execute when Strategize completes",
            Self::StartApply => "start Apply when Execute completes",
            Self::DecideInStrategize => "make decisions in Strategize",
            Self::DecideInExecute => "make decisions in Execute",
            Self::RepairValidation => "repair a failed validation",
            Self::RevertFromExecute => "return from Execute to Strategize",
            Self::RevertFromApply => "return from Apply to Strategize",
            Self::CreateChildPlan => "create child plans",
            Self::RetryTransientError => "retry after a transient error",
            Self::RestoreCheckpoint => "restore a checkpoint",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_threshold_has_one_group_and_a_description() {
        let grouped: Vec<ThresholdName> = ThresholdGroup::ALL
            .iter()
            .flat_map(|group| group.thresholds())
            .collect();
        assert_eq!(grouped.len(), ThresholdName::ALL.len());
        let said: BTreeSet<&str> = grouped.iter().map(|name| name.description()).collect();
        assert_eq!(said.len(), ThresholdName::ALL.len());
    }
}
