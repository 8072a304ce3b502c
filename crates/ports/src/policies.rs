//! The user's rules for plans: invariants by scope, custom automation profiles, and
//! consents to use files of repositories. The built-in profiles are code and never stored.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{
    AbsolutePath, AutomationProfile, Consent, Invariant, NamespacedName, ResourcePath,
};
use serde::{Deserialize, Serialize};

use super::Result;

/// A stored profile with its version for optimistic locking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    pub profile: AutomationProfile,
    pub version: i64,
}

pub trait Policies {
    /// Stores a rule. Fails with `Taken`, which names the rule, if the scope already has the same
    /// text. Fails with `NotFound` if the project or plan does not exist.
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()>;

    /// Returns the rule whose id starts or ends with `fragment`. Fails with `Ambiguous` if several
    /// match.
    fn find_invariant(&mut self, fragment: &IdFragment) -> Result<Invariant>;

    /// Removes a rule and returns it. Of several concurrent callers one succeeds.
    fn remove_invariant(&mut self, id: InvariantId) -> Result<Invariant>;

    /// Returns all rules, oldest first.
    fn invariants(&mut self) -> Result<Vec<Invariant>>;

    /// Returns the rules of these scopes: global ones first, then those of the projects in the
    /// given order, of the action, and of the plan; each oldest first.
    fn invariants_for(
        &mut self,
        projects: &[NamespacedName],
        action: Option<&NamespacedName>,
        plan: Option<PlanId>,
    ) -> Result<Vec<Invariant>>;

    /// Stores a new profile. Fails with `Taken` if the name is taken; built-in names always are.
    fn insert_profile(&mut self, profile: &AutomationProfile) -> Result<()>;

    /// Replaces the profile of the same name if `row.version` is the newest; returns the next
    /// version.
    fn replace_profile(&mut self, row: &ProfileRow) -> Result<i64>;

    fn profile(&mut self, name: &NamespacedName) -> Result<ProfileRow>;

    /// Returns all custom profiles, ordered by name.
    fn profiles(&mut self) -> Result<Vec<ProfileRow>>;

    /// Stores a consent. Returns false, and changes nothing, if the user has already consented to
    /// that content of that file.
    fn insert_consent(&mut self, consent: &Consent) -> Result<bool>;

    /// Returns the consents to a file, one per content, oldest first.
    fn consents_to(
        &mut self,
        repository: &AbsolutePath,
        path: &ResourcePath,
    ) -> Result<Vec<Consent>>;
}
