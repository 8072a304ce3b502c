//! The step that does the work of a plan again, as another plan.

use cleveragents_api::NextStep;
use cleveragents_api::plan::PlanUse;
use cleveragents_definitions::built_in_do_action;
use cleveragents_domain::action::Actors;
use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::invariant::InvariantScopeKind;
use cleveragents_domain::{BaseSource, Plan, PlanBrief};
use cleveragents_ports::StoreError;
use serde_json::Value;

use crate::services::Services;

/// Returns the step of creating another plan with the brief of this one. It works in any folder.
pub(crate) async fn start_over_step(
    services: &Services,
    plan: &Plan,
) -> Result<NextStep, StoreError> {
    let name = plan.brief.action_name.clone();
    let any_task = built_in_do_action();
    if name == any_task.name {
        return Ok(use_step(&plan.brief, Some(&any_task.actors)));
    }
    let read = services.store().read(move |tx| match tx.action(&name) {
        Ok(action) => Ok(Some(action.actors)),
        // The repository has its own definition of the action, or it is gone.
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    });
    let own_actors = read.await?;
    Ok(use_step(&plan.brief, own_actors.as_ref()))
}

/// Returns the step of using the action again. Names what the user chose for the first plan, and
/// actors that are not the action's own.
fn use_step(brief: &PlanBrief, own_actors: Option<&Actors>) -> NextStep {
    let projects: Vec<String> = brief.projects.iter().map(ToString::to_string).collect();
    let arguments = brief.arguments.iter();
    let arguments = arguments.map(|(name, value)| argument_text(name, value));
    let invariants = brief.invariants.iter();
    let invariants = invariants.filter(|it| it.source == InvariantScopeKind::Plan);
    let lists = [
        ("projects", projects),
        ("arguments", arguments.collect()),
        ("invariants", invariants.map(|it| it.text.clone()).collect()),
    ];
    let profile = &brief.automation_profile.name;
    let actors = &brief.actors;
    let (strategy, execution) = (&actors.strategy_actor, &actors.execution_actor);
    let is_own_strategy = own_actors.is_some_and(|own| own.strategy_actor == *strategy);
    let is_own_execution = own_actors.is_some_and(|own| own.execution_actor == *execution);
    let options = [
        (
            "automation_profile",
            profile.to_string(),
            brief.automation_source == ProfileSource::Plan,
        ),
        ("strategy_actor", strategy.to_string(), !is_own_strategy),
        ("execution_actor", execution.to_string(), !is_own_execution),
        (
            "base",
            brief.base.to_string(),
            brief.base != BaseSource::default(),
        ),
    ];
    let step = NextStep::fill_in::<PlanUse>(&[("action", &brief.action_name.to_string())]);
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let step = lists.fold(step, |step, (name, list)| step.with_argument(name, list));
    let options = options.into_iter().filter(|(_, _, is_chosen)| *is_chosen);
    options.fold(step, |step, (name, value, _)| {
        step.with_argument(name, value)
    })
}

fn argument_text(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    }
}
