//! Errors of the lifecycle.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{
    IllegalMove, NamespacedName, Phase, Plan, PreflightFailure, RepositoryFile, TrustState,
};

use crate::runs::RunService;
use crate::secrets::references::ReferenceError;
use cleveragents_definitions::{GivenArgumentError, TemplateError};
use cleveragents_ports::{Holder, StoreError};

pub type Result<T, E = LifecycleError> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum LifecycleError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{illegal} (plan {plan})")]
    Illegal { plan: PlanId, illegal: IllegalMove },
    #[error("plan {} is being run by {} since {}", holder.plan, describe_owner(holder, *pid), holder.claimed_at)]
    Owned {
        holder: Box<Holder>,
        pid: Option<u32>,
    },
    #[error("plan {} is at {} and not finished", plan.name, plan.position)]
    NotFinished { plan: Box<Plan> },
    #[error("plan {} is at {}, which is final", plan.name, plan.position)]
    Final { plan: Box<Plan> },
    #[error("a plan needs at least one project")]
    NoProject,
    #[error("project {project} is named twice")]
    DuplicateProject { project: NamespacedName },
    #[error(transparent)]
    Argument(#[from] GivenArgumentError),
    #[error("{what} cannot be used: {error}")]
    Secret { what: String, error: ReferenceError },
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("there is no automation profile `{name}`")]
    UnknownProfile { name: String },
    #[error("{} of the repository {} {}", file.path, file.repository, describe_untrusted(*state))]
    NotTrusted {
        file: Box<RepositoryFile>,
        state: TrustState,
    },
    #[error("invalid phase `{to}`: a plan is reverted to strategize")]
    RevertTarget { to: Phase },
    #[error("{reason}")]
    Invalid { reason: String },
    #[error("the plan cannot start: {}", join_failures(failures))]
    Preflight {
        failures: Vec<PreflightFailure>,
        /// The configured default model, if an actor needs it and it cannot be used.
        default_model: Option<ModelChoice>,
    },
    #[error("the idempotency key was used before and made plan {}, which was deleted", plan.name)]
    KeySpent { plan: Box<Plan> },
    #[error("the idempotency key was used before for another request, which made plan {}", plan.name)]
    KeyReused { plan: Box<Plan> },
}

impl LifecycleError {
    /// Another process has the plan's run.
    pub(crate) fn owned(holder: Holder, runs: &RunService) -> Self {
        let pid = runs.process_id(&holder);
        let holder = Box::new(holder);
        Self::Owned { holder, pid }
    }
}

/// Names the process where it is known.
fn describe_owner(holder: &Holder, pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => format!("{} on node {}", holder.owner, holder.node),
    }
}

fn describe_untrusted(state: TrustState) -> &'static str {
    match state {
        TrustState::Changed => "has changed since you trusted it",
        TrustState::FirstUse | TrustState::Trusted => "is not trusted yet",
    }
}

fn join_failures(failures: &[PreflightFailure]) -> String {
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
