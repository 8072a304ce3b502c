//! `plan.use`

use std::collections::BTreeMap;
use std::path::PathBuf;

use cleveragents_domain::{BaseSource, NamespacedName, PlanInvariant, ProfileName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PlanSummary;
use crate::request::{Request, RequestKind};
use crate::uncommitted::UncommittedFiles;

/// Creates a plan from an action and projects. The plan is queued and does not run yet.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanUse {
    pub action: NamespacedName,
    pub projects: Vec<NamespacedName>,
    /// `NAME=VALUE` texts. Secrets in them are replaced before the plan is stored.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// If `None`, the profile of the action, of the project or `default_profile` is used. Only a
    /// profile named here may be less strict than what a repository asks for.
    #[serde(default)]
    pub automation_profile: Option<ProfileName>,
    #[serde(default)]
    pub invariants: Vec<String>,
    #[serde(default)]
    pub strategy_actor: Option<NamespacedName>,
    #[serde(default)]
    pub execution_actor: Option<NamespacedName>,
    /// The base of the plan's sandboxes.
    #[serde(default)]
    pub base: BaseSource,
    /// A repeated request with the same key returns the plan that it created the first time.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Consents to the repository's own files that the request uses, as they are now.
    #[serde(default)]
    pub trust: bool,
    /// Consents to the file whose content has this hash, which the user was asked about.
    #[serde(default)]
    pub trusted_hash: Option<String>,
    /// The profile from the caller's settings.
    pub default_profile: ProfileName,
    /// The profile from the settings of the caller's repository. It can only tighten.
    #[serde(default)]
    pub repository_profile: Option<ProfileName>,
    /// The caller's working directory, whose project may define actions.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

impl Request for PlanUse {
    type Answer = CreatedPlan;
    const NAME: &'static str = "plan.use";
    const KIND: RequestKind = RequestKind::Write;
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub description: String,
    pub automation_profile: ProfileName,
    /// The values of the action's arguments.
    pub inputs: BTreeMap<String, Value>,
    pub actors: CreatedPlanActors,
    pub automation: CreatedPlanAutomation,
    pub context: CreatedPlanContext,
    pub invariants: Vec<PlanInvariant>,
    pub base: BaseSource,
    /// Commands to run next.
    pub next_steps: Vec<String>,
    /// Files that the plan does not see, because it starts from the last commit.
    pub uncommitted: Vec<UncommittedFiles>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPlanActors {
    pub strategy: NamespacedName,
    pub execution: NamespacedName,
    pub estimation: Option<NamespacedName>,
}

/// The automation profile of a new plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPlanAutomation {
    pub profile: ProfileName,
    /// The source of the profile.
    pub source: String,
    pub read_only: bool,
}

/// The resources of a new plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPlanContext {
    pub resources: usize,
    /// Always `null`: nothing indexes files yet.
    pub indexed_files: Option<u64>,
    /// Always `null`, as above.
    pub view: Option<String>,
    /// Always `null`, as above.
    pub hot_token_budget: Option<u64>,
}
