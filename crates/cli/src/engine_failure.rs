//! What the engine's services refuse, as failures people can act on.

use cleveragents_domain::MoveKind;
use cleveragents_domain::lifecycle::Obstacle;
use cleveragents_engine::definitions::DefinitionErrors;
use cleveragents_engine::lifecycle::LifecycleError;
use serde_json::json;

use crate::failure::{ExitCode, Failure};

impl From<LifecycleError> for Failure {
    fn from(error: LifecycleError) -> Self {
        let shown = error.to_string();
        let conflict = |kind| Failure::new(ExitCode::Conflict, shown.clone()).kind(kind);
        let usage = |kind| Failure::usage(shown.clone()).kind(kind);
        match error {
            LifecycleError::Store(error) => error.into(),
            LifecycleError::Illegal { plan, illegal } => {
                let at = illegal.at;
                let legal: Vec<&str> = illegal.legal.iter().map(|kind| kind.as_str()).collect();
                conflict("illegal_move")
                    .hint(format!("agents plan status {plan}"))
                    .with("plan_id", plan.to_string().into())
                    .with("phase", at.phase().as_str().into())
                    .with("state", at.state().as_str().into())
                    .with("legal_moves", legal.into())
                    .because_of(illegal.asked, illegal.obstacle)
            }
            LifecycleError::Owned { holder } => conflict("running")
                .hint(format!("agents plan log {} --follow", holder.plan))
                .hint(format!("agents plan cancel {}", holder.plan))
                .with("plan_id", holder.plan.to_string().into())
                .with("owner", holder.owner.to_string().into())
                .with("node", holder.node.into()),
            LifecycleError::NotFinished { plan } => {
                let id = plan.identity.plan_id;
                conflict("not_finished")
                    .because("only a plan that is applied or cancelled can be deleted")
                    .hint(format!("agents plan cancel {id}"))
                    .with("plan_id", id.to_string().into())
                    .with("phase", plan.position.phase().as_str().into())
                    .with("state", plan.position.state().as_str().into())
            }
            LifecycleError::NoProject => {
                usage("no_project").hint("agents project create NAME --path DIR")
            }
            LifecycleError::ProjectTwice { .. } => usage("project_twice"),
            LifecycleError::Argument(_) => usage("argument").hint("agents action show ACTION"),
            LifecycleError::Template(_) => usage("template").hint("agents action validate FILE"),
            LifecycleError::UnknownProfile { .. } => Failure::new(ExitCode::NotFound, shown)
                .kind("unknown_profile")
                .hint("agents automation-profile list"),
            LifecycleError::RevertTarget { .. } => usage("revert_target"),
            LifecycleError::Invalid { .. } => usage("invalid"),
            LifecycleError::Preflight { failures } => {
                let mut failure =
                    Failure::new(ExitCode::Error, "the plan cannot start").kind("preflight");
                for found in &failures {
                    failure = failure.because(found.to_string());
                }
                failure
                    .hint("agents diagnostics")
                    .with("preflight", json!(failures))
            }
            LifecycleError::KeyReused { plan } => conflict("key_reused")
                .hint("choose another key, or repeat the first request as it was")
                .with("plan_id", plan.identity.plan_id.to_string().into()),
        }
    }
}

impl Failure {
    /// Why a move that is legal elsewhere is not legal here, in words that help.
    fn because_of(self, asked: MoveKind, obstacle: Option<Obstacle>) -> Self {
        match (asked, obstacle) {
            (MoveKind::Revert, Some(Obstacle::ReversionsSpent)) => {
                self.hint("agents plan cancel PLAN, then use the action again")
            }
            _ => self,
        }
    }
}

/// A file that does not say what it should: every problem with its place.
impl From<DefinitionErrors> for Failure {
    fn from(errors: DefinitionErrors) -> Self {
        let found = errors.as_slice();
        let source = found.first().map_or("", |one| one.source.as_str());
        let what = match found.len() {
            1 => format!("{source} has a problem"),
            number => format!("{source} has {number} problems"),
        };
        let problems: Vec<_> = found
            .iter()
            .map(|one| {
                json!({
                    "file": one.source,
                    "line": one.line,
                    "column": one.column,
                    "path": one.path,
                    "message": one.what,
                    "hint": one.hint,
                })
            })
            .collect();
        Failure::usage(what)
            .kind("definition")
            .because(errors.to_string())
            .with("problems", problems.into())
    }
}
