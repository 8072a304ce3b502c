//! Automation profiles: which steps need the user's approval.
//!
//! A profile has eleven thresholds, four flags, [`guards`] for every tool call, and retry limits.
//! It is resolved once, at `plan use`, and frozen into the plan. The eight built-in profiles are in
//! [`built_in`]. The engine decides which command consults which threshold; so far it consults
//! `StartExecute` and `StartApply` (`engine::execution::profile_decisions`).

pub mod built_in;
pub mod guards;
pub mod threshold_groups;
mod tighten;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fraction::{Confidence, Threshold};
use crate::name::{NameError, NamespacedName};
use crate::schema::fixed_schema;
use crate::text_enum::text_enum;

pub use built_in::BuiltInProfile;
pub use guards::{Approval, GuardRefusal, GuardedCall, Guards};
pub use threshold_groups::ThresholdGroup;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutomationProfile {
    pub name: ProfileName,
    #[serde(default)]
    pub description: String,
    pub thresholds: Thresholds,
    /// Refuse resources that cannot be sandboxed. Resources that can be sandboxed always are.
    pub require_sandbox: bool,
    pub require_checkpoints: bool,
    pub allow_unsafe_tools: bool,
    /// Whether the user may apply a plan although required checks failed, with a reason.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_forced_checks: bool,
    #[serde(default)]
    pub guards: Guards,
    #[serde(default)]
    pub limits: RetryLimits,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl AutomationProfile {
    /// Returns whether a plan under this profile may pass the gate of `name` without approval.
    pub fn gate(&self, name: ThresholdName, confidence: Confidence) -> GateDecision {
        gate(self.thresholds.get(name), confidence)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateDecision {
    Proceed,
    Ask,
}

/// Proceeds if `confidence` reaches `threshold`. A threshold of 1 always asks, whatever the
/// confidence; a threshold of 0 never asks.
pub fn gate(threshold: Threshold, confidence: Confidence) -> GateDecision {
    if threshold < Threshold::ONE && confidence.value() >= threshold.value() {
        GateDecision::Proceed
    } else {
        GateDecision::Ask
    }
}

macro_rules! thresholds {
    ($($(#[$doc:meta])* $variant:ident / $field:ident = $text:literal),+ $(,)?) => {
        text_enum! {
            /// The name of a threshold.
            ThresholdName: "threshold" { $($(#[$doc])* $variant = $text),+ }
        }

        /// The eleven thresholds.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Thresholds {
            $($(#[$doc])* pub $field: Threshold,)+
        }

        impl Thresholds {
            /// Sets every threshold to the same value.
            pub const fn all(value: Threshold) -> Self {
                Self { $($field: value),+ }
            }

            pub const fn get(&self, name: ThresholdName) -> Threshold {
                match name {
                    $(ThresholdName::$variant => self.$field,)+
                }
            }

            /// Combines the thresholds of the same name with `pick`.
            fn merge(&self, other: &Self, pick: impl Fn(Threshold, Threshold) -> Threshold) -> Self {
                Self { $($field: pick(self.$field, other.$field)),+ }
            }
        }
    };
}

thresholds! {
    /// Strategize starts right after `plan use`.
    StartStrategize / decompose_task = "decompose_task",
    /// Execute starts when Strategize completes.
    StartExecute / create_tool = "create_tool",
    /// Apply starts when Execute completes.
    StartApply / select_tool = "select_tool",
    /// Decisions in Strategize.
    DecideInStrategize / edit_code = "edit_code",
    /// Decisions in Execute.
    DecideInExecute / execute_command = "execute_command",
    /// Repair of a failed validation.
    RepairValidation / create_file = "create_file",
    /// Reversion from Execute to Strategize.
    RevertFromExecute / delete_content = "delete_content",
    /// Reversion from Apply to Strategize.
    RevertFromApply / access_network = "access_network",
    /// Child plans.
    CreateChildPlan / install_dependency = "install_dependency",
    /// Retry of transient errors.
    RetryTransientError / modify_config = "modify_config",
    /// Restoring a checkpoint.
    RestoreCheckpoint / approve_plan = "approve_plan",
}

/// Limits on retries and repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryLimits {
    pub max_retries_per_step: u32,
    pub validation_retry_limit: u32,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            max_retries_per_step: 3,
            validation_retry_limit: 3,
        }
    }
}

text_enum! {
    /// The source of a plan's profile. The first source that names a profile wins.
    ProfileSource: "profile source" {
        Plan = "plan",
        Action = "action",
        Project = "project",
        Global = "global",
    }
}

/// The bare name of a built-in profile, or the namespaced name of a custom profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProfileName {
    BuiltIn(BuiltInProfile),
    Custom(NamespacedName),
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(built_in) => built_in.fmt(f),
            Self::Custom(name) => name.fmt(f),
        }
    }
}

impl FromStr for ProfileName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(built_in) => Ok(Self::BuiltIn(built_in)),
            Err(_) => text.parse().map(Self::Custom),
        }
    }
}

fixed_schema! {
    ProfileName: {
        "description": "The name of an automation profile.",
        "type": "string"
    }
}

impl Serialize for ProfileName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confidence(value: f64) -> Confidence {
        Confidence::new(value).unwrap()
    }

    #[test]
    fn a_gate_opens_when_confidence_reaches_the_threshold() {
        let threshold = Threshold::new(0.7).unwrap();
        assert_eq!(gate(threshold, confidence(0.7)), GateDecision::Proceed);
        assert_eq!(gate(threshold, confidence(0.69)), GateDecision::Ask);
    }

    #[test]
    fn threshold_one_always_asks_and_zero_never_does() {
        assert_eq!(gate(Threshold::ONE, Confidence::ONE), GateDecision::Ask);
        assert_eq!(
            gate(Threshold::ZERO, Confidence::ZERO),
            GateDecision::Proceed
        );
    }

    #[test]
    fn every_threshold_is_looked_up_by_name() {
        let json = serde_json::to_value(Thresholds::all(Threshold::ZERO)).unwrap();
        let object = json.as_object().unwrap();
        assert_eq!(object.len(), 11);
        for name in ThresholdName::ALL {
            let mut changed = object.clone();
            changed.insert(name.as_str().to_owned(), 0.25.into());
            let thresholds: Thresholds = serde_json::from_value(changed.into()).unwrap();
            for other in ThresholdName::ALL {
                let expected = if other == name { 0.25 } else { 0.0 };
                assert_eq!(thresholds.get(*other).value(), expected, "{name} {other}");
            }
        }
    }

    #[test]
    fn an_unknown_bare_name_is_a_custom_profile() {
        let parse = |text: &str| text.parse::<ProfileName>().unwrap();
        assert_eq!(
            parse("full-auto"),
            ProfileName::BuiltIn(BuiltInProfile::FullAuto)
        );
        assert_eq!(parse("mine").to_string(), "local/mine");
        assert_eq!(parse("team/manual").to_string(), "team/manual");
        assert!("a b".parse::<ProfileName>().is_err());
    }

    #[test]
    fn a_profile_reads_back_and_refuses_unknown_fields() {
        for built_in in BuiltInProfile::ALL {
            let profile = built_in.profile();
            let json = serde_json::to_value(&profile).unwrap();
            assert_eq!(
                serde_json::from_value::<AutomationProfile>(json.clone()).unwrap(),
                profile
            );
            let mut unknown = json;
            unknown["safety"] = true.into();
            assert!(serde_json::from_value::<AutomationProfile>(unknown).is_err());
        }
    }

    #[test]
    fn three_retries_are_the_default() {
        let limits: RetryLimits = serde_json::from_str("{}").unwrap();
        assert_eq!(
            (limits.max_retries_per_step, limits.validation_retry_limit),
            (3, 3)
        );
    }
}
