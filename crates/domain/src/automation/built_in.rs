//! The eight built-in profiles. The test below checks that their numbers match the documented
//! behaviour of each command under each profile.

use super::{AutomationProfile, Guards, ProfileName, RetryLimits, Thresholds};
use crate::fraction::Threshold;
use crate::text_enum::text_enum;

text_enum! {
    /// A profile that always exists, ordered from most to least careful.
    BuiltInProfile: "built-in profile" {
        Manual = "manual",
        Review = "review",
        Supervised = "supervised",
        Cautious = "cautious",
        Trusted = "trusted",
        Auto = "auto",
        Ci = "ci",
        FullAuto = "full-auto",
    }
}

const ALWAYS_ASK: Threshold = Threshold::ONE;
const NEVER_ASK: Threshold = Threshold::ZERO;

impl BuiltInProfile {
    /// The profile used if none is chosen.
    pub const DEFAULT: Self = Self::Supervised;

    pub fn profile(self) -> AutomationProfile {
        let restraint = match self {
            Self::FullAuto => SafetyRequirement::Waived,
            _ => SafetyRequirement::Required,
        };
        AutomationProfile {
            name: ProfileName::BuiltIn(self),
            description: self.description().to_owned(),
            thresholds: self.thresholds(),
            require_sandbox: restraint == SafetyRequirement::Required,
            require_checkpoints: restraint == SafetyRequirement::Required,
            allow_unsafe_tools: restraint == SafetyRequirement::Waived,
            // Results of checks are overridden only where the user wrote a profile that says so.
            allow_forced_checks: false,
            guards: Guards::default(),
            limits: RetryLimits::default(),
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Manual => "You approve every step",
            Self::Review => "Strategizes automatically; you make the decisions",
            Self::Supervised => "Strategizes automatically; you start Execute and Apply",
            Self::Cautious => "Continues where it is confident; you start Apply",
            Self::Trusted => "Executes automatically; you apply and revert",
            Self::Auto => "Does everything automatically except Apply",
            Self::Ci => "Does everything automatically, safely: for pipelines",
            Self::FullAuto => "Does everything automatically, with no gates",
        }
    }

    const fn thresholds(self) -> Thresholds {
        let ask = Thresholds::all(ALWAYS_ASK);
        let free = Thresholds::all(NEVER_ASK);
        match self {
            Self::Manual => ask,
            Self::Review => Thresholds {
                decompose_task: NEVER_ASK,
                modify_config: NEVER_ASK,
                ..ask
            },
            Self::Supervised => Thresholds {
                create_tool: ALWAYS_ASK,
                select_tool: ALWAYS_ASK,
                delete_content: ALWAYS_ASK,
                access_network: ALWAYS_ASK,
                approve_plan: ALWAYS_ASK,
                ..free
            },
            Self::Cautious => Thresholds {
                decompose_task: NEVER_ASK,
                select_tool: ALWAYS_ASK,
                delete_content: Threshold::NINE_TENTHS,
                access_network: ALWAYS_ASK,
                modify_config: NEVER_ASK,
                approve_plan: Threshold::NINE_TENTHS,
                ..Thresholds::all(Threshold::SEVEN_TENTHS)
            },
            Self::Trusted => Thresholds {
                select_tool: ALWAYS_ASK,
                delete_content: ALWAYS_ASK,
                access_network: ALWAYS_ASK,
                approve_plan: ALWAYS_ASK,
                ..free
            },
            Self::Auto => Thresholds {
                select_tool: ALWAYS_ASK,
                ..free
            },
            Self::Ci | Self::FullAuto => free,
        }
    }
}

/// Whether a profile requires a sandbox, checkpoints and safe tools.
#[derive(PartialEq, Eq)]
enum SafetyRequirement {
    Required,
    Waived,
}

#[cfg(test)]
mod tests {
    use super::super::{GateDecision, ThresholdName};
    use super::*;
    use crate::fraction::Confidence;

    /// Result of the first `plan execute`. The command itself approves Strategize; the thresholds
    /// decide how far it continues.
    fn first_execute(profile: &AutomationProfile, confidence: Confidence) -> &'static str {
        let executes = profile.gate(ThresholdName::StartExecute, confidence);
        let applies = profile.gate(ThresholdName::StartApply, confidence);
        match (executes, applies) {
            (GateDecision::Ask, _) => "strategizes",
            (GateDecision::Proceed, GateDecision::Ask) => "strategizes and executes",
            (GateDecision::Proceed, GateDecision::Proceed) => "strategizes, executes and applies",
        }
    }

    /// Result of the second `plan execute`. The command itself approves Execute.
    fn second_execute(profile: &AutomationProfile, confidence: Confidence) -> &'static str {
        match profile.gate(ThresholdName::StartApply, confidence) {
            GateDecision::Ask => "executes",
            GateDecision::Proceed => "executes and applies",
        }
    }

    #[test]
    fn every_profile_matches_the_contract_table() {
        let table = [
            (BuiltInProfile::Manual, "strategizes"),
            (BuiltInProfile::Review, "strategizes"),
            (BuiltInProfile::Supervised, "strategizes"),
            (BuiltInProfile::Cautious, "strategizes and executes"),
            (BuiltInProfile::Trusted, "strategizes and executes"),
            (BuiltInProfile::Auto, "strategizes and executes"),
            (BuiltInProfile::Ci, "strategizes, executes and applies"),
            (
                BuiltInProfile::FullAuto,
                "strategizes, executes and applies",
            ),
        ];
        assert_eq!(table.map(|(built_in, _)| built_in), BuiltInProfile::ALL);
        for (built_in, expected) in table {
            let profile = built_in.profile();
            assert_eq!(first_execute(&profile, Confidence::ONE), expected);
            // Only `cautious` depends on the actor's confidence.
            let unsure = match built_in {
                BuiltInProfile::Cautious => "strategizes",
                _ => expected,
            };
            assert_eq!(first_execute(&profile, Confidence::ZERO), unsure);
            // A plan that stops after Strategize stops again before Apply.
            if unsure == "strategizes" {
                assert_eq!(second_execute(&profile, Confidence::ONE), "executes");
            }
        }
    }

    #[test]
    fn manual_asks_at_every_gate_and_ci_at_none() {
        for name in ThresholdName::ALL {
            assert_eq!(
                BuiltInProfile::Manual
                    .profile()
                    .gate(*name, Confidence::ONE),
                GateDecision::Ask
            );
            assert_eq!(
                BuiltInProfile::Ci.profile().gate(*name, Confidence::ZERO),
                GateDecision::Proceed
            );
        }
    }

    #[test]
    fn only_full_auto_waives_the_sandbox() {
        for built_in in BuiltInProfile::ALL {
            let profile = built_in.profile();
            let waived = *built_in == BuiltInProfile::FullAuto;
            assert_eq!(profile.require_sandbox, !waived, "{built_in}");
            assert_eq!(profile.require_checkpoints, !waived, "{built_in}");
            assert_eq!(profile.allow_unsafe_tools, waived, "{built_in}");
        }
    }

    #[test]
    fn the_default_is_supervised() {
        assert_eq!(BuiltInProfile::DEFAULT.as_str(), "supervised");
    }
}
