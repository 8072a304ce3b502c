//! Invariants: rules that plans must follow, and which of them win when several scopes conflict.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::DESCRIPTION_MAXIMUM;
use crate::id::{InvariantId, PlanId};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// A rule and its scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Invariant {
    pub id: InvariantId,
    pub text: String,
    pub scope: InvariantScope,
    /// A global rule that no narrower scope may replace.
    #[serde(default)]
    pub non_overridable: bool,
    pub created_at: Timestamp,
}

/// The scope of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvariantScope {
    Global,
    Project(NamespacedName),
    Action(NamespacedName),
    Plan(PlanId),
}

text_enum! {
    /// A scope without its target.
    InvariantScopeKind: "scope" {
        Global = "global",
        Project = "project",
        Action = "action",
        Plan = "plan",
    }
}

impl InvariantScope {
    pub const fn kind(&self) -> InvariantScopeKind {
        match self {
            Self::Global => InvariantScopeKind::Global,
            Self::Project(_) => InvariantScopeKind::Project,
            Self::Action(_) => InvariantScopeKind::Action,
            Self::Plan(_) => InvariantScopeKind::Plan,
        }
    }

    /// The target of the scope as text; `None` if the scope is global.
    pub fn target(&self) -> Option<String> {
        match self {
            Self::Global => None,
            Self::Project(name) | Self::Action(name) => Some(name.to_string()),
            Self::Plan(plan) => Some(plan.to_string()),
        }
    }
}

/// A rule as frozen into a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanInvariant {
    pub text: String,
    pub source: InvariantScopeKind,
}

impl From<&Invariant> for PlanInvariant {
    fn from(invariant: &Invariant) -> Self {
        Self {
            text: invariant.text.clone(),
            source: invariant.scope.kind(),
        }
    }
}

/// Error of an invalid invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvariantError {
    #[error("an invariant needs a text")]
    Empty,
    #[error("an invariant may be {DESCRIPTION_MAXIMUM} bytes long, this one has {length}")]
    TooLong { length: usize },
    #[error("only a global invariant can be non-overridable, this one has the scope {scope}")]
    NotGlobal { scope: InvariantScopeKind },
}

impl Invariant {
    pub fn validate(&self) -> Result<(), InvariantError> {
        let scope = self.scope.kind();
        if self.text.trim().is_empty() {
            Err(InvariantError::Empty)
        } else if self.text.len() > DESCRIPTION_MAXIMUM {
            let length = self.text.len();
            Err(InvariantError::TooLong { length })
        } else if self.non_overridable && scope != InvariantScopeKind::Global {
            Err(InvariantError::NotGlobal { scope })
        } else {
            Ok(())
        }
    }

    /// The text without differences in case and white space. It is unique within one scope.
    pub fn normalised_text(&self) -> String {
        normalise(&self.text)
    }

    fn strength(&self) -> Strength {
        match self.scope {
            InvariantScope::Global if self.non_overridable => Strength::NonOverridable,
            InvariantScope::Plan(_) => Strength::Plan,
            InvariantScope::Action(_) => Strength::Action,
            InvariantScope::Project(_) => Strength::Project,
            InvariantScope::Global => Strength::Global,
        }
    }
}

/// Strongest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    NonOverridable,
    Plan,
    Action,
    Project,
    Global,
}

/// Returns the effective rules among those that apply to a plan. Strongest first; equally strong
/// rules keep the given order. Each text occurs once, from the strongest scope that has it.
pub fn reconcile<'a>(applicable: impl IntoIterator<Item = &'a Invariant>) -> Vec<&'a Invariant> {
    let mut effective: Vec<&Invariant> = applicable.into_iter().collect();
    // The sort is stable, so the caller's order is kept within one scope.
    effective.sort_by_key(|invariant| invariant.strength());
    let mut seen = HashSet::new();
    effective.retain(|invariant| seen.insert(invariant.normalised_text()));
    effective
}

/// Texts that differ only in case and white space are equal.
fn normalise(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invariant(text: &str, scope: InvariantScope) -> Invariant {
        Invariant {
            id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            text: text.to_owned(),
            scope,
            non_overridable: false,
            created_at: Timestamp::default(),
        }
    }

    fn project() -> InvariantScope {
        InvariantScope::Project("local/shop".parse().unwrap())
    }

    fn action() -> InvariantScope {
        InvariantScope::Action("local/lint".parse().unwrap())
    }

    fn plan() -> InvariantScope {
        InvariantScope::Plan("01JZZZZZZZ0000000000ABCDEF".parse().unwrap())
    }

    fn effective(invariants: &[Invariant]) -> Vec<(&str, InvariantScopeKind)> {
        reconcile(invariants)
            .into_iter()
            .map(|invariant| (invariant.text.as_str(), invariant.scope.kind()))
            .collect()
    }

    #[test]
    fn narrower_scopes_come_first_and_keep_their_order() {
        let invariants = [
            invariant("g", InvariantScope::Global),
            invariant("p", project()),
            invariant("a2", action()),
            invariant("a1", action()),
            invariant("l", plan()),
        ];
        assert_eq!(
            effective(&invariants),
            [
                ("l", InvariantScopeKind::Plan),
                ("a2", InvariantScopeKind::Action),
                ("a1", InvariantScopeKind::Action),
                ("p", InvariantScopeKind::Project),
                ("g", InvariantScopeKind::Global)
            ]
        );
    }

    #[test]
    fn a_text_is_kept_once_from_the_strongest_scope() {
        let invariants = [
            invariant("No new  dependencies", InvariantScope::Global),
            invariant("no new dependencies", project()),
            invariant(" NO NEW\tDEPENDENCIES ", action()),
        ];
        assert_eq!(
            effective(&invariants),
            [(" NO NEW\tDEPENDENCIES ", InvariantScopeKind::Action)]
        );
    }

    #[test]
    fn a_non_overridable_global_always_wins() {
        let fixed = Invariant {
            non_overridable: true,
            ..invariant("Never push", InvariantScope::Global)
        };
        let invariants = [invariant("never push", plan()), fixed];
        assert_eq!(
            effective(&invariants),
            [("Never push", InvariantScopeKind::Global)]
        );
    }

    #[test]
    fn only_globals_can_be_non_overridable() {
        let global = invariant("x", InvariantScope::Global);
        assert_eq!(global.validate(), Ok(()));
        let mut narrow = invariant("x", action());
        narrow.non_overridable = true;
        assert_eq!(
            narrow.validate().unwrap_err().to_string(),
            "only a global invariant can be non-overridable, this one has the scope action"
        );
        assert_eq!(
            invariant(" \n", plan()).validate(),
            Err(InvariantError::Empty)
        );
    }

    #[test]
    fn a_text_has_a_limit() {
        let longest = invariant(&"x".repeat(DESCRIPTION_MAXIMUM), plan());
        assert_eq!(longest.validate(), Ok(()));
        let longer = invariant(&"x".repeat(DESCRIPTION_MAXIMUM + 1), plan());
        assert_eq!(
            longer.validate().unwrap_err().to_string(),
            "an invariant may be 4096 bytes long, this one has 4097"
        );
    }

    #[test]
    fn an_invariant_reads_back_and_is_frozen_with_its_source() {
        for scope in [InvariantScope::Global, project(), action(), plan()] {
            let invariant = invariant("x", scope);
            let json = serde_json::to_string(&invariant).unwrap();
            assert_eq!(serde_json::from_str::<Invariant>(&json).unwrap(), invariant);
            let named = invariant.scope.target().is_some();
            assert_eq!(named, invariant.scope.kind() != InvariantScopeKind::Global);
            let frozen = PlanInvariant::from(&invariant);
            assert_eq!(frozen.source, invariant.scope.kind());
        }
    }
}
