//! Invariants: rules that plans must keep.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::invariant::InvariantScopeKind;
use cleveragents_domain::{NamespacedName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::PlanReference;
use crate::request::{Request, RequestKind};

/// Adds a rule in each of the given scopes, or in none if one fails. Without a scope the rule is
/// global.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantAdd {
    pub text: String,
    /// No narrower scope may replace it. Only for a global rule.
    #[serde(default)]
    pub non_overridable: bool,
    #[serde(default)]
    pub project: Option<NamespacedName>,
    /// The actions, registered or not.
    #[serde(default)]
    pub action: Vec<NamespacedName>,
    #[serde(default)]
    pub plan: Vec<PlanReference>,
}

/// Lists rules, newest first, or the effective rules of a project or plan, strongest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InvariantList {
    /// Only rules whose text matches this regular expression, ignoring case.
    pub pattern: Option<String>,
    /// Resolves which rules apply. Needs `project` or `plan`.
    pub effective: bool,
    /// Only global rules.
    pub global: bool,
    pub project: Option<NamespacedName>,
    pub action: Option<NamespacedName>,
    pub plan: Option<PlanReference>,
    pub limit: Option<usize>,
}

/// Removes a rule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantRemove {
    pub id: IdFragment,
}

impl Request for InvariantAdd {
    type Answer = AddedInvariants;
    const NAME: &'static str = "invariant.add";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for InvariantList {
    type Answer = InvariantPage;
    const NAME: &'static str = "invariant.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for InvariantRemove {
    type Answer = InvariantDetails;
    const NAME: &'static str = "invariant.remove";
    const KIND: RequestKind = RequestKind::Write;
}

/// The added rules, one per scope.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedInvariants {
    pub invariants: Vec<InvariantDetails>,
}

/// A rule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantDetails {
    /// `None` if the rule was not added by a request, so that it cannot be removed by one.
    pub id: Option<InvariantId>,
    pub text: String,
    pub scope: InvariantScopeKind,
    /// The name of the project or action, or the id of the plan; `None` for a global rule.
    pub target: Option<String>,
    pub non_overridable: bool,
    pub created_at: Timestamp,
    /// The same as `scope`.
    pub source: InvariantScopeKind,
    pub origin: InvariantOrigin,
}

/// The source of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvariantOrigin {
    Added,
    /// It is part of the action, or was given when the plan was created.
    Written,
}

/// The rules that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantPage {
    pub invariants: Vec<InvariantDetails>,
    /// Rules that a stronger one repeats. Only in a list of effective rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadowed: Option<Vec<ShadowedInvariant>>,
    pub filters: InvariantFilters,
    pub summary: InvariantCounts,
}

/// A rule that a stronger rule repeats.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShadowedInvariant {
    #[serde(flatten)]
    pub rule: InvariantDetails,
    pub shadowed_by: InvariantDetails,
}

/// The filters of a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct InvariantFilters {
    pub effective: bool,
    /// The only scope that is listed; `None` for all scopes and for effective rules.
    pub scope: Option<InvariantScopeKind>,
    pub target: Option<String>,
    /// The project whose effective rules are listed.
    pub project: Option<NamespacedName>,
    /// The action whose effective rules are listed.
    pub action: Option<NamespacedName>,
    /// The plan whose effective rules are listed.
    pub plan: Option<PlanId>,
    pub pattern: Option<String>,
}

/// Counts over all rules that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantCounts {
    pub total: usize,
    /// Only in a list of effective rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadowed: Option<usize>,
}
