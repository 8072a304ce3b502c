//! Rules as people and programs see them.

use cleveragents_domain::{Invariant, NamespacedName, Scope};
use cleveragents_engine::invariants::{Origin, Rule};
use serde_json::{Value, json};

use crate::failure::{ExitCode, Failure};
use crate::output::{Cell, Tone};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

pub(super) const HEADERS: [&str; 4] = ["id", "scope", "for", "rule"];

/// What programs get of a rule.
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

/// The same of a rule that applies: one that was not added has no id to remove it by.
pub(super) fn rule_data(rule: &Rule) -> Value {
    let mut data = data(&rule.invariant);
    let origin = match rule.origin {
        Origin::Added => "added",
        Origin::Written => "written",
    };
    data["source"] = data["scope"].clone();
    data["origin"] = origin.into();
    if rule.origin == Origin::Written {
        data["id"] = Value::Null;
    }
    data
}

pub(super) fn row(rule: &Invariant) -> Vec<Cell> {
    cells(rule, Cell::new(rule.id.short(), Tone::Strong))
}

pub(super) fn rule_row(rule: &Rule) -> Vec<Cell> {
    let id = match rule.origin {
        Origin::Added => Cell::new(rule.invariant.id.short(), Tone::Strong),
        Origin::Written => Cell::new("-", Tone::Faint),
    };
    cells(&rule.invariant, id)
}

fn cells(rule: &Invariant, id: Cell) -> Vec<Cell> {
    let scope = match rule.non_overridable {
        true => Cell::new("global, non-overridable", Tone::Good),
        false => Cell::from(rule.scope.kind().to_string()),
    };
    vec![
        id,
        scope,
        target(&rule.scope).into(),
        rule.text.clone().into(),
    ]
}

/// Whom a scope names, as people know it.
pub(super) fn target(scope: &Scope) -> String {
    match scope {
        Scope::Global => String::new(),
        Scope::Project(name) | Scope::Action(name) => name.to_string(),
        Scope::Plan(plan) => plan.short(),
    }
}

/// The scope of a plan as people name it.
pub(super) fn plan_scope(plan: &PlanArgument, wired: &Wired<'_>) -> Result<Scope, Failure> {
    let plan = wired.wait(wired.lifecycle().find_plan(plan.0.clone()))?;
    Ok(Scope::Plan(plan.identity.plan_id))
}

/// A refusal because a project or plan is not there, with what lists them.
pub(super) fn with_lists(failure: Failure, project: Option<&NamespacedName>) -> Failure {
    match (failure.exit, project) {
        (ExitCode::NotFound, Some(_)) => failure.hint("agents project list"),
        (ExitCode::NotFound, None) => failure.hint("agents plan list"),
        _ => failure,
    }
}
