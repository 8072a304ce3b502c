//! Automation profiles: which steps of a plan need the user's approval.

use std::collections::BTreeMap;

use cleveragents_domain::ProfileName;
use cleveragents_domain::automation::{
    Guards, RetryLimits, ThresholdGroup, ThresholdName, Thresholds,
};
use cleveragents_domain::fraction::Threshold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition_text::DefinitionText;
use crate::request::{Request, RequestKind};

/// Lists automation profiles: the built-in ones from strictest to least strict, then the custom
/// ones by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AutomationProfileList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub limit: Option<usize>,
    /// The profile that the caller's settings choose, as it is written there.
    pub default_profile: Option<String>,
}

/// Returns an automation profile, built-in or custom.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AutomationProfileShow {
    pub name: ProfileName,
}

/// Adds an automation profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AutomationProfileAdd {
    pub config: DefinitionText,
    /// Replaces a profile of the same name instead of failing.
    #[serde(default)]
    pub update: bool,
}

impl Request for AutomationProfileList {
    type Answer = ProfilePage;
    const NAME: &'static str = "automation_profile.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for AutomationProfileShow {
    type Answer = GroupedProfile;
    const NAME: &'static str = "automation_profile.show";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for AutomationProfileAdd {
    type Answer = AddedProfile;
    const NAME: &'static str = "automation_profile.add";
    const KIND: RequestKind = RequestKind::Write;
}

/// All automation profiles.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfilePage {
    pub profiles: Vec<ListedProfile>,
    /// The setting of the caller, even if it names no profile.
    pub default: Option<String>,
    pub filters: ProfileFilters,
    pub summary: ProfileCounts,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFilters {
    pub pattern: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedProfile {
    #[serde(flatten)]
    pub profile: ProfileDetails,
    /// Whether the caller's settings choose it.
    pub default: bool,
}

/// Counts over all profiles that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileCounts {
    pub total: usize,
    pub built_in: usize,
    pub custom: usize,
}

/// An automation profile with all its fields.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDetails {
    pub name: ProfileName,
    pub description: String,
    pub built_in: bool,
    pub thresholds: Thresholds,
    pub flags: ProfileFlags,
    pub guards: Guards,
    pub limits: RetryLimits,
}

/// The requirements and permissions of a profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFlags {
    /// Refuse resources that cannot be sandboxed. Resources that can be sandboxed always are.
    pub require_sandbox: bool,
    pub require_checkpoints: bool,
    pub allow_unsafe_tools: bool,
    pub allow_forced_checks: bool,
}

/// An automation profile whose thresholds are explained.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupedProfile {
    #[serde(flatten)]
    pub profile: ProfileDetails,
    pub groups: BTreeMap<ThresholdGroup, BTreeMap<ThresholdName, ExplainedThreshold>>,
}

/// A threshold and its effect.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedThreshold {
    pub value: Threshold,
    /// The operation that needs approval while the confidence is below the value.
    pub gates: String,
    /// Whether a plan asks for approval with this value.
    pub means: String,
}

/// An automation profile after it was added or replaced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedProfile {
    #[serde(flatten)]
    pub profile: ProfileDetails,
    /// 1 if it was added.
    pub version: i64,
}
