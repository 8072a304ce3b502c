//! Custom automation profiles. The built-in ones are code and never stored.

use cleveragents_domain::{AutomationProfile, NamespacedName};
use serde::{Deserialize, Serialize};

use super::Result;

/// A stored profile with its version for optimistic locking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    pub profile: AutomationProfile,
    pub version: i64,
}

pub trait Profiles {
    /// Stores a new profile. Fails with `Taken` if the name is taken; built-in names always are.
    fn insert_profile(&mut self, profile: &AutomationProfile) -> Result<()>;

    /// Replaces the profile of the same name if `row.version` is the newest; returns the next
    /// version.
    fn replace_profile(&mut self, row: &ProfileRow) -> Result<i64>;

    fn profile(&mut self, name: &NamespacedName) -> Result<ProfileRow>;

    /// Returns all custom profiles, ordered by name.
    fn profiles(&mut self) -> Result<Vec<ProfileRow>>;
}
