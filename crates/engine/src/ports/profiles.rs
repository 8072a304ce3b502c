//! Custom automation profiles. The built-in ones are code and never stored.

use cleveragents_domain::{AutomationProfile, NamespacedName};
use serde::{Deserialize, Serialize};

use super::Result;

/// A stored profile and the version that guards it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    pub profile: AutomationProfile,
    pub version: i64,
}

pub trait Profiles {
    /// Stores a new profile; a taken name, and a built-in one always is, is `Taken`.
    fn insert_profile(&mut self, profile: &AutomationProfile) -> Result<()>;

    /// Replaces the profile of the same name if `row.version` is still the newest; answers with
    /// the next version.
    fn replace_profile(&mut self, row: &ProfileRow) -> Result<i64>;

    fn profile(&mut self, name: &NamespacedName) -> Result<ProfileRow>;

    /// All custom profiles, by name.
    fn profiles(&mut self) -> Result<Vec<ProfileRow>>;
}
