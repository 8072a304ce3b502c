//! Handlers of invariants, one file per verb.

mod add;
mod list;
mod remove;

use cleveragents_api::invariant::{InvariantDetails, InvariantOrigin};
use cleveragents_api::plan::{PlanList, PlanReference};
use cleveragents_api::project::ProjectList;
use cleveragents_api::{ExitClass, NextStep};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Invariant, NamespacedName};
use cleveragents_engine::invariants::{Rule, RuleOrigin};

use crate::failure::RequestError;
use crate::services::Services;

/// Returns the id of the plan that the user named.
async fn plan_id(services: &Services, plan: &PlanReference) -> Result<PlanId, RequestError> {
    let plan = services.lifecycle().find_plan(plan.0.clone()).await?;
    Ok(plan.identity.plan_id)
}

fn details(rule: &Invariant) -> InvariantDetails {
    InvariantDetails {
        id: Some(rule.id),
        text: rule.text.clone(),
        scope: rule.scope.kind(),
        target: rule.scope.target(),
        non_overridable: rule.non_overridable,
        created_at: rule.created_at,
        source: rule.scope.kind(),
        origin: InvariantOrigin::Added,
    }
}

/// Like [`details`], for an effective rule.
fn rule_details(rule: &Rule) -> InvariantDetails {
    let details = details(&rule.invariant);
    match rule.origin {
        RuleOrigin::Added => details,
        RuleOrigin::Written => InvariantDetails {
            id: None,
            origin: InvariantOrigin::Written,
            ..details
        },
    }
}

/// Adds the step of listing projects or plans to the failure for a missing one.
fn with_list_hint(failure: RequestError, project: Option<&NamespacedName>) -> RequestError {
    match (failure.exit, project) {
        (ExitClass::NotFound, Some(_)) => failure.hint(NextStep::send(&ProjectList::default())),
        (ExitClass::NotFound, None) => failure.hint(NextStep::send(&PlanList::default())),
        _ => failure,
    }
}
