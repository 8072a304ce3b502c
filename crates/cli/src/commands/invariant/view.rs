//! Output of rules for people and programs.

use cleveragents_domain::{Invariant, InvariantScope, NamespacedName};
use cleveragents_engine::invariants::{Rule, RuleOrigin};
use serde_json::{Value, json};

use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{Tone, ViewCell};

pub(super) const HEADERS: [&str; 4] = ["id", "scope", "for", "rule"];

/// Returns a rule for JSON output.
pub(super) fn data(rule: &Invariant) -> Value {
    json!({
        "id": rule.id,
        "text": rule.text,
        "scope": rule.scope.kind(),
        "target": rule.scope.target(),
        "non_overridable": rule.non_overridable,
        "created_at": rule.created_at,
    })
}

/// Like [`data`], for an effective rule. A rule that was not added with `invariant add` has no id
/// to remove it by.
pub(super) fn rule_data(rule: &Rule) -> Value {
    let mut data = data(&rule.invariant);
    let origin = match rule.origin {
        RuleOrigin::Added => "added",
        RuleOrigin::Written => "written",
    };
    data["source"] = data["scope"].clone();
    data["origin"] = origin.into();
    if rule.origin == RuleOrigin::Written {
        data["id"] = Value::Null;
    }
    data
}

pub(super) fn row(rule: &Invariant) -> Vec<ViewCell> {
    cells(rule, ViewCell::new(rule.id.short(), Tone::Strong))
}

pub(super) fn rule_row(rule: &Rule) -> Vec<ViewCell> {
    let id = match rule.origin {
        RuleOrigin::Added => ViewCell::new(rule.invariant.id.short(), Tone::Strong),
        RuleOrigin::Written => ViewCell::new("-", Tone::Faint),
    };
    cells(&rule.invariant, id)
}

fn cells(rule: &Invariant, id: ViewCell) -> Vec<ViewCell> {
    let scope = if rule.non_overridable {
        ViewCell::new("global, non-overridable", Tone::Good)
    } else {
        ViewCell::from(rule.scope.kind().to_string())
    };
    vec![
        id,
        scope,
        target(&rule.scope).into(),
        rule.text.clone().into(),
    ]
}

/// Returns the name of the scope's target.
pub(super) fn target(scope: &InvariantScope) -> String {
    match scope {
        InvariantScope::Global => String::new(),
        InvariantScope::Project(name) | InvariantScope::Action(name) => name.to_string(),
        InvariantScope::Plan(plan) => plan.short(),
    }
}

/// Returns the scope of the plan that the user named.
pub(super) fn plan_scope(
    plan: &PlanArgument,
    app: &AppContext<'_>,
) -> Result<InvariantScope, CommandFailure> {
    let plan = app.block_on(app.lifecycle().find_plan(plan.0.clone()))?;
    Ok(InvariantScope::Plan(plan.identity.plan_id))
}

/// Adds the command that lists projects or plans to the failure for a missing one.
pub(super) fn with_list_hints(
    failure: CommandFailure,
    project: Option<&NamespacedName>,
) -> CommandFailure {
    match (failure.exit, project) {
        (ExitCode::NotFound, Some(_)) => failure.hint("agents project list"),
        (ExitCode::NotFound, None) => failure.hint("agents plan list"),
        _ => failure,
    }
}
