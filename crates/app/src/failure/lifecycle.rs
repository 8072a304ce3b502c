//! Converts errors of the engine's services into failures with hints.

use cleveragents_api::ExitClass;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::lifecycle::{MoveKind, Obstacle};
use cleveragents_domain::{IllegalMove, Phase, Plan, PlanState};
use cleveragents_engine::decisions::DecisionFailure;
use cleveragents_engine::invariants::RuleError;
use cleveragents_engine::lifecycle::{LifecycleError, PreflightFailure};
use cleveragents_ports::Holder;
use cleveragents_ports::models::ModelError;
use serde_json::json;

use super::RequestError;
use super::trust::not_trusted_failure;

impl From<LifecycleError> for RequestError {
    fn from(error: LifecycleError) -> Self {
        let shown = error.to_string();
        let usage = |kind| RequestError::usage(shown.clone()).kind(kind);
        match error {
            LifecycleError::Store(error) => error.into(),
            LifecycleError::NoProject => {
                usage("no_project").hint("agents project create NAME --path DIR")
            }
            LifecycleError::DuplicateProject { .. } => usage("project_twice"),
            LifecycleError::Argument(_) => usage("argument"),
            LifecycleError::Secret { .. } => {
                usage("secret").hint("agents diagnostics, which lists the names of secrets")
            }
            LifecycleError::Template(_) => usage("template").hint("agents action validate FILE"),
            LifecycleError::RevertTarget { .. } => usage("revert_target"),
            LifecycleError::Invalid { .. } => usage("invalid"),
            LifecycleError::UnknownProfile { .. } => RequestError::new(ExitClass::NotFound, shown)
                .kind("unknown_profile")
                .hint("agents automation-profile list"),
            LifecycleError::NotTrusted { file, state } => not_trusted_failure(&file, state, None),
            LifecycleError::Preflight { failures } => preflight_failure(&failures),
            LifecycleError::Illegal { plan, illegal } => {
                illegal_move_failure(plan, &illegal, shown)
            }
            LifecycleError::Owned { holder, pid } => running_failure(*holder, pid, shown),
            LifecycleError::NotFinished { plan } => plan_conflict(&plan, "not_finished", shown)
                .because("only a plan that is applied or cancelled can be deleted")
                .hint(format!("agents plan cancel {}", plan.identity.plan_id)),
            LifecycleError::Final { plan } => plan_conflict(&plan, "final", shown)
                .hint(format!("agents plan status {}", plan.identity.plan_id)),
            LifecycleError::KeySpent { plan } => RequestError::new(ExitClass::Conflict, shown)
                .kind("key_spent")
                .hint("choose another key to make a new plan")
                .with("plan_id", json!(plan.identity.plan_id)),
            LifecycleError::KeyReused { plan } => plan_conflict(&plan, "key_reused", shown)
                .hint("choose another key, or repeat the first request as it was"),
        }
    }
}

impl From<DecisionFailure> for RequestError {
    fn from(error: DecisionFailure) -> Self {
        let shown = error.to_string();
        let conflict = |kind| RequestError::new(ExitClass::Conflict, shown.clone()).kind(kind);
        match error {
            DecisionFailure::Lifecycle(error) => error.into(),
            DecisionFailure::Misplaced(_) => RequestError::usage(shown).kind("misplaced_decision"),
            DecisionFailure::SelfInfluence { .. } => {
                RequestError::usage(shown).kind("own_influence")
            }
            DecisionFailure::Superseded { decision } => conflict("superseded")
                .because("a superseded decision cannot be corrected")
                .hint(format!("agents plan explain {decision}"))
                .with("decision_id", decision.to_string().into()),
            DecisionFailure::NotProcessing { plan, .. } => conflict("not_worked_on")
                .hint(format!("agents plan status {plan}"))
                .with("plan_id", plan.to_string().into()),
            DecisionFailure::NoGuidance => RequestError::usage(shown)
                .kind("no_guidance")
                .because("the guidance is empty")
                .hint("agents plan correct --mode revert --guidance TEXT DECISION"),
            DecisionFailure::GuidanceTooLong { .. } => {
                RequestError::usage("the guidance is too long")
                    .kind("too_long")
                    .because(shown)
                    .hint("put the details into a file of the project and name it")
            }
            DecisionFailure::ContextDamaged { decision, .. } => {
                RequestError::new(ExitClass::Error, shown)
                    .kind("context_damaged")
                    .because("the stored context does not match its hash")
                    .hint("agents diagnostics")
                    .with("decision_id", decision.to_string().into())
            }
        }
    }
}

/// Returns a conflict failure that reports the plan's current state.
fn plan_conflict(plan: &Plan, kind: &'static str, what: String) -> RequestError {
    RequestError::new(ExitClass::Conflict, what)
        .kind(kind)
        .with("plan_id", json!(plan.identity.plan_id))
        .with("phase", json!(plan.position.phase()))
        .with("state", json!(plan.position.state()))
}

/// Returns the commands for the legal moves. The others are made by the process that runs the plan.
fn legal_commands(plan: PlanId, illegal: &IllegalMove) -> Vec<String> {
    let next = match illegal.at.phase() {
        Phase::Apply => "apply",
        Phase::Execute if illegal.at.state() == PlanState::Complete => "apply",
        _ => "execute",
    };
    let verb = |it: &MoveKind| match it {
        MoveKind::Start | MoveKind::Advance | MoveKind::Retry => Some(next),
        MoveKind::Resume => Some("resume"),
        MoveKind::Revert => Some("revert"),
        MoveKind::Cancel => Some("cancel"),
        _ => None,
    };
    let mut verbs: Vec<&str> = illegal.legal.iter().filter_map(verb).collect();
    verbs.dedup();
    let command = |verb: &&str| format!("agents plan {verb} {plan}");
    verbs.iter().map(command).collect()
}

fn illegal_move_failure(plan: PlanId, illegal: &IllegalMove, what: String) -> RequestError {
    let spent = illegal.obstacle == Some(Obstacle::ReversionsExhausted);
    let failure = RequestError::new(ExitClass::Conflict, what)
        .kind("illegal_move")
        .with("plan_id", json!(plan))
        .with("phase", json!(illegal.at.phase()))
        .with("state", json!(illegal.at.state()))
        .with("legal_moves", json!(illegal.legal))
        .hint(format!("agents plan status {plan}"));
    let commands = legal_commands(plan, illegal).into_iter();
    let failure = commands.fold(failure, RequestError::hint);
    if spent {
        failure.hint("cancel the plan and use its action again")
    } else {
        failure
    }
}

fn running_failure(holder: Holder, pid: Option<u32>, what: String) -> RequestError {
    RequestError::new(ExitClass::Conflict, what)
        .kind("running")
        .hint(format!("agents plan log {} --follow", holder.plan))
        .hint(format!("agents plan cancel {}", holder.plan))
        .with("plan_id", json!(holder.plan))
        .with("owner", json!(holder.owner))
        .with("node", json!(holder.node))
        .with("pid", json!(pid))
}

/// Hints on how to set up a model.
const MODEL_HINTS: [&str; 3] = [
    "export ANTHROPIC_API_KEY=…  (or OPENAI_API_KEY, OPENROUTER_API_KEY)",
    "agents config set model.default PROVIDER/MODEL",
    "agents actor list --type llm",
];

/// Returns the failure of a command that needs a model when none is configured.
pub fn no_model_failure(error: &ModelError) -> RequestError {
    let failure = RequestError::usage("a free-text task needs a model")
        .kind("no_model")
        .because(error.to_string());
    with_model_hints(failure)
        .hint("agents run ACTION (may not need a model)")
        .hint("agents run … --strategy-actor ACTOR --execution-actor ACTOR")
}

fn with_model_hints(failure: RequestError) -> RequestError {
    let hint = |failure: RequestError, command: &&str| failure.hint(*command);
    MODEL_HINTS.iter().fold(failure, hint)
}

fn preflight_failure(failures: &[PreflightFailure]) -> RequestError {
    // A missing model is a usage error: the user has to configure one.
    let no_model = failures.iter().all(|it| it.check == "models");
    let code = if no_model {
        ExitClass::Usage
    } else {
        ExitClass::Error
    };
    let mut failure = RequestError::new(code, "the plan cannot start").kind("preflight");
    for found in failures {
        failure = failure.because(found.to_string());
    }
    if failures.iter().any(|it| it.check == "models") {
        failure = with_model_hints(failure);
    }
    failure
        .hint("agents diagnostics")
        .with("preflight", json!(failures))
}

impl From<RuleError> for RequestError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::Store(error) => error.into(),
            RuleError::Invalid(error) => RequestError::usage(error.to_string())
                .kind("invalid")
                .because("the rule cannot be added like this")
                .hint("agents invariant add --help"),
        }
    }
}
