//! Actions: reusable, typed templates of work.

use std::path::PathBuf;

use cleveragents_domain::id::ActionId;
use cleveragents_domain::{
    ActionState, Argument, Budget, Check, NamespacedName, ProfileName, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition_text::DefinitionText;
use crate::request::{Request, RequestKind};

/// Lists actions, newest first: the registered ones, then those in files of the caller's project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActionList {
    /// Only names that match this regular expression, ignoring case.
    pub pattern: Option<String>,
    pub state: Option<ActionState>,
    pub namespace: Option<String>,
    pub limit: Option<usize>,
    /// The caller's working directory, whose project may define actions.
    pub folder: Option<PathBuf>,
}

/// Returns an action. One that is not registered is read from the files of the caller's project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionShow {
    pub name: NamespacedName,
    /// The caller's working directory, whose project may define actions.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

/// Registers an action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionCreate {
    pub config: DefinitionText,
    /// Replaces an action of the same name instead of failing.
    #[serde(default)]
    pub update: bool,
}

/// Makes an action unavailable for new plans.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionArchive {
    pub name: NamespacedName,
    /// The caller's working directory, whose project may define actions.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

/// Checks the definition of an action and reports every problem.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionValidate {
    pub file: DefinitionText,
}

impl Request for ActionList {
    type Answer = ActionPage;
    const NAME: &'static str = "action.list";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ActionShow {
    type Answer = ActionDetails;
    const NAME: &'static str = "action.show";
    const KIND: RequestKind = RequestKind::Read;
}

impl Request for ActionCreate {
    type Answer = ActionDetails;
    const NAME: &'static str = "action.create";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ActionArchive {
    type Answer = ArchivedAction;
    const NAME: &'static str = "action.archive";
    const KIND: RequestKind = RequestKind::Write;
}

impl Request for ActionValidate {
    type Answer = ValidAction;
    const NAME: &'static str = "action.validate";
    const KIND: RequestKind = RequestKind::Read;
}

/// The actions that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionPage {
    pub actions: Vec<ActionSummary>,
    pub filters: ActionFilters,
    pub summary: ActionCounts,
}

/// One action in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionSummary {
    pub name: NamespacedName,
    pub state: ActionState,
    pub strategy_actor: NamespacedName,
    pub execution_actor: NamespacedName,
    pub reusable: bool,
    /// Number of plans that used it.
    pub plans: u64,
    pub description: String,
    pub source: ActionSource,
    /// The file that defines it, if it is not registered.
    pub file: Option<String>,
}

/// The source of an action's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionSource {
    Registered,
    /// In a file of the caller's project.
    File,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionFilters {
    pub state: Option<ActionState>,
    pub namespace: Option<String>,
    pub pattern: Option<String>,
}

/// Counts over all actions that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionCounts {
    pub total: usize,
    pub available: usize,
    pub archived: usize,
    pub total_plans_created: u64,
}

/// An action with all its fields.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActionDetails {
    pub name: NamespacedName,
    /// `None` if the action is not registered.
    pub id: Option<ActionId>,
    pub state: ActionState,
    pub description: String,
    pub long_description: Option<String>,
    pub strategy_actor: NamespacedName,
    pub execution_actor: NamespacedName,
    pub estimation_actor: Option<NamespacedName>,
    pub review_actor: Option<NamespacedName>,
    pub apply_actor: Option<NamespacedName>,
    pub invariant_actor: Option<NamespacedName>,
    pub definition_of_done: String,
    pub arguments: Vec<Argument>,
    pub automation_profile: Option<ProfileName>,
    pub invariants: Vec<String>,
    pub checks: Vec<Check>,
    pub budget: Budget,
    pub skills: Vec<NamespacedName>,
    pub reusable: bool,
    pub read_only: bool,
    /// Number of plans that used it.
    pub plans: u64,
    pub source: ActionSource,
    /// The file that defines it, if it is not registered.
    pub file: Option<String>,
    pub version: Option<i64>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    /// The command that creates a plan from it, with placeholders in upper case.
    pub use_command: String,
}

/// An action after it was archived.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ArchivedAction {
    pub name: NamespacedName,
    pub id: ActionId,
    pub state: ActionState,
    pub updated_at: Timestamp,
    pub version: i64,
}

/// The result of checking a definition. A definition with problems is a failure instead, which
/// lists them in its data.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidAction {
    pub valid: bool,
    /// The name of the file in messages.
    pub file: String,
    pub name: NamespacedName,
    /// The number of arguments that it declares.
    pub arguments: usize,
    /// Always empty.
    pub problems: Vec<String>,
}
