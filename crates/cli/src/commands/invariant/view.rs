//! Output of rules for people.

use cleveragents_api::invariant::InvariantDetails;
use cleveragents_domain::InvariantScopeKind;
use cleveragents_domain::id::PlanId;

use crate::output::{Tone, ViewCell};

pub(super) const HEADERS: [&str; 4] = ["id", "scope", "for", "rule"];

pub(super) fn row(rule: &InvariantDetails) -> Vec<ViewCell> {
    let id = match rule.id {
        Some(id) => ViewCell::new(id.short(), Tone::Strong),
        None => ViewCell::new("-", Tone::Faint),
    };
    let scope = if rule.non_overridable {
        ViewCell::new("global, non-overridable", Tone::Good)
    } else {
        ViewCell::from(rule.scope.to_string())
    };
    vec![id, scope, target(rule).into(), rule.text.clone().into()]
}

/// Returns the name of the scope's target.
pub(super) fn target(rule: &InvariantDetails) -> String {
    let target = rule.target.clone().unwrap_or_default();
    match (rule.scope, target.parse::<PlanId>()) {
        (InvariantScopeKind::Plan, Ok(plan)) => plan.short(),
        _ => target,
    }
}
