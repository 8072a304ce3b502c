//! Payloads about actions, actors, validations, profiles and trusted files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actor::ActorType;
use crate::automation::{AutomationProfile, ProfileName};
use crate::id::ActionId;
use crate::name::NamespacedName;
use crate::trust::RepositoryFile;
use crate::validation::{Attachment, ValidationMode};

/// An action was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionCreated {
    pub name: NamespacedName,
    pub id: ActionId,
    /// Written if the command could also have replaced an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// An action was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionUpdated {
    pub name: NamespacedName,
    pub id: ActionId,
    pub version: i64,
}

/// An action was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionArchived {
    pub name: NamespacedName,
    pub id: ActionId,
}

/// The definition of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorDefinition {
    pub name: NamespacedName,
    #[serde(rename = "type")]
    pub actor_type: ActorType,
    pub hash: String,
    /// The number of its steps.
    pub steps: u64,
    pub version: i64,
}

/// An actor was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ActorAdded(pub ActorDefinition);

/// An actor was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ActorUpdated(pub ActorDefinition);

/// An actor was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorRemoved {
    pub name: NamespacedName,
    pub hash: String,
    pub version: i64,
}

/// The definition of a validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDefinition {
    pub name: NamespacedName,
    pub mode: ValidationMode,
    pub hash: String,
    pub version: i64,
}

/// A validation was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ValidationAdded(pub ValidationDefinition);

/// A validation was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ValidationUpdated(pub ValidationDefinition);

/// A validation was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationRemoved {
    pub name: NamespacedName,
    pub hash: String,
    pub version: i64,
}

/// A validation was attached to a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ValidationAttached(pub Attachment);

/// A validation was detached from a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ValidationDetached(pub Attachment);

/// A version of an automation profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileVersion {
    pub name: ProfileName,
    pub version: i64,
    pub profile: AutomationProfile,
}

/// An automation profile was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProfileAdded(pub ProfileVersion);

/// An automation profile was replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProfileUpdated(pub ProfileVersion);

/// The user consented to use a repository file with this content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RepositoryFileTrusted(pub RepositoryFile);
