//! Converts errors of the engine's services into failures with hints.

use cleveragents_api::action::ActionValidate;
use cleveragents_api::actor::ActorList;
use cleveragents_api::plan::{PlanExplain, PlanStart};
use cleveragents_api::project::ProjectCreate;
use cleveragents_api::{ExitClass, FailureKind, NextStep};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::lifecycle::{MoveKind, Obstacle};
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{
    ActorType, IllegalMove, Phase, Plan, PlanState, PreflightCheck, PreflightFailure,
};
use cleveragents_engine::actors::OpenModelError;
use cleveragents_engine::decisions::DecisionFailure;
use cleveragents_engine::invariants::RuleError;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::Holder;

use super::RequestError;
use super::trust::not_trusted_failure;
use crate::next_steps::{
    apply_to_current_step, cancel_step, correct_step, execute_step, profiles_step, resume_step,
    revert_step, status_step,
};

impl From<LifecycleError> for RequestError {
    fn from(error: LifecycleError) -> Self {
        let shown = error.to_string();
        let usage = |kind| RequestError::usage(shown.clone()).kind(kind);
        match error {
            LifecycleError::Store(error) => error.into(),
            LifecycleError::NoProject => {
                let arguments = [("name", "NAME"), ("path", "DIR")];
                usage(FailureKind::NoProject).hint(NextStep::fill_in::<ProjectCreate>(&arguments))
            }
            LifecycleError::DuplicateProject { .. } => usage(FailureKind::ProjectTwice),
            LifecycleError::Argument(_) => usage(FailureKind::Argument),
            LifecycleError::Secret { .. } => usage(FailureKind::Secret)
                .hint("agents diagnostics, which lists the names of secrets"),
            LifecycleError::Template(_) => {
                let arguments = [("file", "FILE")];
                usage(FailureKind::Template).hint(NextStep::fill_in::<ActionValidate>(&arguments))
            }
            LifecycleError::RevertTarget { .. } => usage(FailureKind::RevertTarget),
            LifecycleError::Invalid { .. } => usage(FailureKind::Invalid),
            LifecycleError::UnknownProfile { .. } => RequestError::new(ExitClass::NotFound, shown)
                .kind(FailureKind::UnknownProfile)
                .hint(profiles_step()),
            LifecycleError::NotTrusted { file, state } => not_trusted_failure(&file, state, None),
            LifecycleError::Preflight {
                failures,
                default_model,
            } => preflight_failure(&failures, default_model.as_ref()),
            LifecycleError::Illegal { plan, illegal } => {
                illegal_move_failure(plan, &illegal, shown)
            }
            LifecycleError::Owned { holder, pid } => running_failure(*holder, pid, shown),
            LifecycleError::NotFinished { plan } => {
                plan_conflict(&plan, FailureKind::NotFinished, shown)
                    .because("only a plan that is applied or cancelled can be deleted")
                    .hint(cancel_step(plan.identity.plan_id))
            }
            LifecycleError::Final { plan } => plan_conflict(&plan, FailureKind::Final, shown)
                .hint(status_step(plan.identity.plan_id)),
            LifecycleError::KeySpent { plan } => RequestError::new(ExitClass::Conflict, shown)
                .kind(FailureKind::KeySpent)
                .hint("choose another key to make a new plan")
                .with_plan_id(plan.identity.plan_id),
            LifecycleError::KeyReused { plan } => {
                plan_conflict(&plan, FailureKind::KeyReused, shown)
                    .hint("choose another key, or repeat the first request as it was")
            }
        }
    }
}

impl From<DecisionFailure> for RequestError {
    fn from(error: DecisionFailure) -> Self {
        let shown = error.to_string();
        let conflict = |kind| RequestError::new(ExitClass::Conflict, shown.clone()).kind(kind);
        match error {
            DecisionFailure::Lifecycle(error) => error.into(),
            DecisionFailure::Misplaced(_) => {
                RequestError::usage(shown).kind(FailureKind::MisplacedDecision)
            }
            DecisionFailure::SelfInfluence { .. } => {
                RequestError::usage(shown).kind(FailureKind::OwnInfluence)
            }
            DecisionFailure::Superseded { decision } => conflict(FailureKind::Superseded)
                .because("a superseded decision cannot be corrected")
                .hint(NextStep::send(&PlanExplain {
                    decision: decision.into(),
                    show_context: false,
                    show_reasoning: false,
                }))
                .with_facts(|facts| facts.decision_id = Some(decision)),
            DecisionFailure::NotProcessing { plan, .. } => conflict(FailureKind::NotWorkedOn)
                .hint(status_step(plan))
                .with_plan_id(plan),
            DecisionFailure::NoGuidance => RequestError::usage(shown)
                .kind(FailureKind::NoGuidance)
                .because("the guidance is empty")
                .hint(correct_step("DECISION")),
            DecisionFailure::GuidanceTooLong { .. } => {
                RequestError::usage("the guidance is too long")
                    .kind(FailureKind::TooLong)
                    .because(shown)
                    .hint("put the details into a file of the project and name it")
            }
            DecisionFailure::ContextDamaged { decision, .. } => {
                RequestError::new(ExitClass::Error, shown)
                    .kind(FailureKind::ContextDamaged)
                    .because("the stored context does not match its hash")
                    .hint("agents diagnostics")
                    .with_facts(|facts| facts.decision_id = Some(decision))
            }
        }
    }
}

/// Returns a conflict failure that reports the plan's current state.
fn plan_conflict(plan: &Plan, kind: FailureKind, what: String) -> RequestError {
    RequestError::new(ExitClass::Conflict, what)
        .kind(kind)
        .with_plan(plan)
}

/// Returns the steps for the legal moves. The others are made by the process that runs the plan.
fn legal_steps(plan: PlanId, illegal: &IllegalMove) -> Vec<NextStep> {
    let next = match illegal.at.phase() {
        Phase::Apply => apply_to_current_step(plan),
        Phase::Execute if illegal.at.state() == PlanState::Complete => apply_to_current_step(plan),
        _ => execute_step(plan),
    };
    let step = |it: &MoveKind| match it {
        MoveKind::Start | MoveKind::Advance | MoveKind::Retry => Some(next.clone()),
        MoveKind::Resume => Some(resume_step(plan)),
        MoveKind::Revert => Some(revert_step(plan)),
        MoveKind::Cancel => Some(cancel_step(plan)),
        _ => None,
    };
    let mut steps: Vec<NextStep> = illegal.legal.iter().filter_map(step).collect();
    steps.dedup();
    steps
}

fn illegal_move_failure(plan: PlanId, illegal: &IllegalMove, what: String) -> RequestError {
    let spent = illegal.obstacle == Some(Obstacle::ReversionsExhausted);
    let failure = RequestError::new(ExitClass::Conflict, what)
        .kind(FailureKind::IllegalMove)
        .with_plan_id(plan)
        .with_facts(|facts| {
            facts.phase = Some(illegal.at.phase());
            facts.state = Some(illegal.at.state());
            facts.legal_moves = Some(illegal.legal.clone());
        })
        .hint(status_step(plan));
    let steps = legal_steps(plan, illegal).into_iter();
    let failure = steps.fold(failure, RequestError::hint);
    if spent {
        failure.hint("cancel the plan and use its action again")
    } else {
        failure
    }
}

fn running_failure(holder: Holder, pid: Option<u32>, what: String) -> RequestError {
    RequestError::new(ExitClass::Conflict, what)
        .kind(FailureKind::Running)
        .hint(NextStep::Watch { plan: holder.plan })
        .hint(cancel_step(holder.plan))
        .with_plan_id(holder.plan)
        .with_facts(|facts| {
            facts.owner = Some(holder.owner);
            facts.node = Some(holder.node);
            facts.pid = Some(pid);
        })
}

/// Hints on how to set up a model.
const MODEL_HINTS: [&str; 2] = [
    "export ANTHROPIC_API_KEY=…  (or OPENAI_API_KEY, OPENROUTER_API_KEY)",
    "agents config set model.default PROVIDER/MODEL",
];

/// Returns the failure of a command that needs a model when none is configured.
pub fn no_model_failure(error: &OpenModelError) -> RequestError {
    let failure = RequestError::usage("a free-text task needs a model")
        .kind(FailureKind::NoModel)
        .because(error.to_string());
    with_model_hints(failure, error.default_model().as_ref())
        .hint(
            NextStep::fill_in::<PlanStart>(&[("task", "ACTION")])
                .with_condition("with an action that needs no model"),
        )
        .hint(NextStep::fill_in::<PlanStart>(&[
            ("task", "TASK"),
            ("strategy_actor", "ACTOR"),
            ("execution_actor", "ACTOR"),
        ]))
}

fn with_model_hints(failure: RequestError, unusable: Option<&ModelChoice>) -> RequestError {
    // The cause names what the default model lacks; the key of another provider does not help.
    let hints = &MODEL_HINTS[usize::from(unusable.is_some())..];
    let hint = |failure: RequestError, command: &&str| failure.hint(*command);
    let failure = hints.iter().fold(failure, hint);
    failure.hint(NextStep::send(&ActorList {
        actor_type: Some(ActorType::Llm),
        ..ActorList::default()
    }))
}

fn preflight_failure(
    failures: &[PreflightFailure],
    default_model: Option<&ModelChoice>,
) -> RequestError {
    // A missing model is a usage error: the user has to configure one.
    let no_model = failures.iter().all(|it| it.check == PreflightCheck::Models);
    let code = if no_model {
        ExitClass::Usage
    } else {
        ExitClass::Error
    };
    let mut failure = RequestError::new(code, "the plan cannot start").kind(FailureKind::Preflight);
    for found in failures {
        failure = failure.because(found.to_string());
    }
    if failures.iter().any(|it| it.check == PreflightCheck::Models) {
        failure = with_model_hints(failure, default_model);
    }
    failure
        .hint("agents diagnostics")
        .with_facts(|facts| facts.preflight = Some(failures.to_vec()))
}

impl From<RuleError> for RequestError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::Store(error) => error.into(),
            RuleError::Invalid(error) => RequestError::usage(error.to_string())
                .kind(FailureKind::Invalid)
                .because("the rule cannot be added like this")
                .hint("agents invariant add --help"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model's own message may contain any words.
    #[test]
    fn only_an_unusable_default_model_hides_the_hint_at_keys() {
        let reason = "local/writer cannot use its model: x is not the default model".to_owned();
        let check = PreflightCheck::Models;
        let failures = [PreflightFailure { check, reason }];
        let names_keys = |failure: RequestError| {
            let hint = NextStep::from(MODEL_HINTS[0]);
            failure.next_steps.contains(&hint)
        };
        assert!(names_keys(preflight_failure(&failures, None)));
        let choice: ModelChoice = "openai/gpt-5".parse().unwrap();
        assert!(!names_keys(preflight_failure(&failures, Some(&choice))));
    }
}
