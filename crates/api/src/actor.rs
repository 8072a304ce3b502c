//! Actors: the definitions that run the steps of plans.

use cleveragents_domain::actor::ActorStep;
use cleveragents_domain::model::FinishReason;
use cleveragents_domain::{Actor, ActorType, NamespacedName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition_change::DefinitionChange;
use crate::definition_text::DefinitionText;
use crate::request::{Request, RequestKind};

/// Adds an actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorAdd {
    pub config: DefinitionText,
    /// Replaces an actor of the same name instead of failing.
    #[serde(default)]
    pub update: bool,
    /// The expected name; fails if the definition has another one.
    #[serde(default)]
    pub name: Option<NamespacedName>,
}

/// Lists actors by name, including the built-in ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActorList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub actor_type: Option<ActorType>,
    pub limit: Option<usize>,
}

/// Removes an actor. Fails if an action uses it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRemove {
    pub name: NamespacedName,
    /// Removes it even if actions use it.
    #[serde(default)]
    pub force: bool,
}

/// Sends a prompt to the model of an actor, outside any plan and without tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRun {
    pub name: NamespacedName,
    pub prompt: String,
}

/// Returns an actor, and the actions that use it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorShow {
    pub name: NamespacedName,
}

/// Checks the definition of an actor and reports every problem.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorValidate {
    pub config: DefinitionText,
}

impl Request for ActorAdd {
    type Answer = ActorAdded;
    const NAME: &'static str = "actor.add";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ActorList {
    type Answer = ActorPage;
    const NAME: &'static str = "actor.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ActorRemove {
    type Answer = ActorRemoved;
    const NAME: &'static str = "actor.remove";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ActorRun {
    type Answer = ActorRunAnswer;
    const NAME: &'static str = "actor.run";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ActorShow {
    type Answer = ActorInUse;
    const NAME: &'static str = "actor.show";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ActorValidate {
    type Answer = ValidActor;
    const NAME: &'static str = "actor.validate";
    const KIND: RequestKind = RequestKind::Read;
}

/// The actor that was added or replaced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorAdded {
    pub actor_added: ChangedActor,
}

/// An actor and the effect of adding it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangedActor {
    pub name: NamespacedName,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    #[serde(flatten)]
    pub model: ActorModel,
    pub config: Actor,
    /// The hash of the definition's content.
    pub hash: String,
    /// The version of the format of definitions.
    pub schema_version: u64,
    pub version: i64,
    pub change: DefinitionChange,
    pub created: Timestamp,
    pub updated: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRemoved {
    pub actor_removed: RemovedActor,
}

/// A removed actor, and the actions that still name it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemovedActor {
    pub name: NamespacedName,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    /// The hash of the definition's content.
    pub hash: String,
    pub version: i64,
    pub config: Actor,
    pub referenced_by_actions: Vec<NamespacedName>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// The answer of an actor's model.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunAnswer {
    pub actor_run: ActorRunFacts,
    pub response: ActorResponse,
    pub usage: ActorRunUsage,
}

/// The actor and model that answered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunFacts {
    pub actor: NamespacedName,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    pub model: String,
    /// `None` if the actor sets none.
    pub temperature: Option<f64>,
    /// Always `None`: a run outside plans uses no skill.
    pub skill: Option<String>,
}

/// The text of a model.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorResponse {
    pub text: String,
    /// The reason for the end of the text.
    pub finish: FinishReason,
}

/// The resources that an answer of a model took.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorRunUsage {
    /// The sum of input and output.
    pub tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub duration_s: f64,
    /// In US dollars; `None` if no price is configured.
    pub cost: Option<f64>,
    /// Always 0: no tool is offered.
    pub tool_calls: u64,
    /// The number of attempts, including failed ones.
    pub attempts: u32,
}

/// The actors that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorPage {
    pub actors: Vec<ActorSummary>,
    pub filters: ActorFilters,
    pub summary: ActorCounts,
}

/// One actor in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorSummary {
    pub name: NamespacedName,
    /// `None` without a model, and if the configured default model is used.
    pub provider: Option<String>,
    /// `None` without a model, and if the configured default model is used.
    pub model: Option<String>,
    /// Always `None`: there is no choice of a default actor yet.
    pub default: Option<bool>,
    #[serde(rename = "unsafe")]
    pub is_unsafe: Option<bool>,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    pub built_in: bool,
    pub description: String,
    /// The number of steps.
    pub steps: usize,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorFilters {
    #[serde(rename = "type")]
    pub actor_type: Option<ActorType>,
    pub pattern: Option<String>,
}

/// Counts over all actors that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorCounts {
    pub total: usize,
    pub built_in: usize,
    pub custom: usize,
}

/// An actor with all its fields, and the actions that use it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorInUse {
    pub actor_details: ActorDetails,
    pub options: ActorOptions,
    pub system_prompt: Option<String>,
    /// Always `None`: actors of the type `graph` cannot be defined yet.
    pub graph_structure: Option<Value>,
    pub steps: Vec<ActorStep>,
    /// The tools that the actor lists; `None` if the phase decides.
    pub tools: Option<Vec<NamespacedName>>,
    /// The skills that the actor lists; `None` if it uses all of its project.
    pub skills: Option<Vec<String>>,
    pub access: ActorAccess,
    pub usage: ActorUsage,
}

/// The definition of an actor, and its origin.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorDetails {
    pub name: NamespacedName,
    pub description: String,
    /// `None` without a model, and if the configured default model is used.
    pub provider: Option<String>,
    /// `None` without a model, and if the configured default model is used.
    pub model: Option<String>,
    /// Always `None`: there is no choice of a default actor yet.
    pub default: Option<bool>,
    pub builtin: bool,
    #[serde(rename = "unsafe")]
    pub is_unsafe: Option<bool>,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    /// `None` if it is built in, like the fields below.
    pub created: Option<Timestamp>,
    pub updated: Option<Timestamp>,
    pub config: Actor,
    pub config_hash: Option<String>,
    pub version: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorAccess {
    /// Whether it may call a tool that a profile must allow explicitly; `None` if it names a tool
    /// that is not known.
    #[serde(rename = "unsafe")]
    pub is_unsafe: Option<bool>,
    /// Always `None`: the settings of the sandbox decide, not the actor.
    pub filesystem: Option<bool>,
    /// Always `None`: the settings of the sandbox decide, not the actor.
    pub network: Option<bool>,
}

/// The uses of an actor. A use that is not recorded is `None`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorUsage {
    pub referenced_by_actions: Vec<NamespacedName>,
    pub active_in_sessions: Option<u64>,
    pub total_runs: Option<u64>,
    pub avg_cost_per_run: Option<f64>,
}

/// The model of an actor with its tools and skills.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorModel {
    /// `None` without a model, and if the configured default model is used.
    pub provider: Option<String>,
    /// `None` without a model, and if the configured default model is used.
    pub model: Option<String>,
    pub options: ActorOptions,
    /// The tools that the actor lists; `None` if the phase decides.
    pub tools: Option<Vec<NamespacedName>>,
    /// The skills that the actor lists; `None` if it uses all of its project.
    pub skills: Option<Vec<String>>,
}

/// Parameters of the model's answers; `None` where the actor sets none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActorOptions {
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    pub top_p: Option<f64>,
}

/// The result of checking a definition. A definition with problems is a failure instead, which
/// lists them in its data.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidActor {
    pub valid: bool,
    /// The name of the file in messages.
    pub file: String,
    pub name: NamespacedName,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    /// The number of steps.
    pub steps: usize,
    #[serde(flatten)]
    pub model: ActorModel,
    pub config: Actor,
    /// Always empty.
    pub problems: Vec<String>,
}
