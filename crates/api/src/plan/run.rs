//! `plan.run`

use std::path::PathBuf;

use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::{BaseSource, NamespacedName, ProfileName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanSummary;
use crate::request::{Request, RequestKind};

/// Creates a plan for a folder and requests that it runs. Approves the strategy, and with `yes` the
/// apply too. The folder becomes a project if there is none for it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlanRun")]
pub struct PlanStart {
    /// The name of an action, or what to do in free text.
    pub task: String,
    /// Whether `task` may be the name of an action.
    #[serde(default)]
    pub may_be_action: bool,
    /// `NAME=VALUE` texts. Secrets in them are replaced before the plan is stored.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The folder to work on; inside a repository, the whole repository.
    pub path: PathBuf,
    /// The base of the plan's sandboxes.
    #[serde(default)]
    pub base: BaseSource,
    /// If `None`, the profile of the action, of the project or `default_profile` is used.
    #[serde(default)]
    pub automation_profile: Option<ProfileName>,
    #[serde(default)]
    pub strategy_actor: Option<NamespacedName>,
    #[serde(default)]
    pub execution_actor: Option<NamespacedName>,
    /// Approves the apply.
    #[serde(default)]
    pub yes: bool,
    /// The target of the plan's apply; the current branch if `None`.
    #[serde(default)]
    pub to: Option<Destination>,
    /// Maximum cost of models, in US dollars.
    #[serde(default)]
    pub max_usd: Option<f64>,
    /// A repeated request with the same key continues the plan that it created the first time.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Consents to the repository's own files that the request uses, as they are now.
    #[serde(default)]
    pub trust: bool,
    /// Consents to the file whose content has this hash, which the user was asked about.
    #[serde(default)]
    pub trusted_hash: Option<String>,
    /// Fails with the kind `uncommitted` if there are files that the plan would not see.
    #[serde(default)]
    pub refuse_uncommitted: bool,
    /// The profile from the caller's settings.
    pub default_profile: ProfileName,
    /// The profile from the settings of the caller's repository. It can only tighten.
    #[serde(default)]
    pub repository_profile: Option<ProfileName>,
    /// The caller's working directory, whose project may define actions.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

impl Request for PlanStart {
    type Answer = StartedPlan;
    const NAME: &'static str = "plan.run";
    const KIND: RequestKind = RequestKind::Work;
}

/// A plan that is queued to run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StartedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// The folder or repository that the plan works on.
    pub path: PathBuf,
}
