//! The facts of a failure, for front ends and programs.

use cleveragents_domain::id::{
    ActionId, AttachmentId, CheckpointId, DecisionId, InvariantId, OwnerId, PlanId, SandboxId,
};
use cleveragents_domain::{
    AbsolutePath, ChainFault, MoveKind, NamespacedName, Phase, PlanState, PreflightFailure,
    ResourcePath, ValidationSummary, WaitReason,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::PlanConflict;
use crate::plan::rebase::RebasedPlanResource;

/// The facts of a failure. Only those that its kind has are set and serialised. A fact that is
/// `null` (`Some(None)`) is known to have no value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureFacts {
    /// The plan that the failure is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<NamespacedName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PlanState>,
    /// What the plan waits for.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub waiting: Option<Option<WaitReason>>,
    /// The action of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<NamespacedName>,
    /// The names of the projects of the plan, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The projects of the plan, or those that link the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<NamespacedName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The resources that were rebased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<RebasedPlanResource>>,
    /// The results of the validations after a rebase.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub validations: Option<Option<ValidationSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<Vec<PlanConflict>>,
    /// The moves that the plan allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legal_moves: Option<Vec<MoveKind>>,
    /// The failed checks before the start of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Vec<PreflightFailure>>,
    /// The process that runs the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerId>,
    /// The machine where the files of the plan are, or where its process runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The process id of the process that runs the plan.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub pid: Option<Option<u32>>,
    /// The rollback that undid the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<CheckpointId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<DecisionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// The commit with the result of the removed sandbox.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub published: Option<Option<String>>,
    /// The number of hunks of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<usize>,
    /// Whether the hash chain of the journal verifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Why the hash chain does not verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<ChainFault>,
    /// Descriptions of the uncommitted files that a plan would not see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// The file that needs the consent of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<UntrustedFile>,
    /// The names, ids or paths that the user may have meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<String>>,
    /// The problems of a definition, in their order in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<DefinitionProblem>>,
    /// The files that define the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The path of the script of an actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The action that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<ActionId>,
    /// The minute when the entry was added.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub since: Option<Option<String>>,
    /// The invariant that has the same text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invariant_id: Option<InvariantId>,
    /// The attachment with the same arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment_id: Option<AttachmentId>,
    /// The attachments of the validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentId>>,
    /// The actions that use the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<NamespacedName>>,
    /// The resource that has the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<NamespacedName>,
    /// The path of the repository that contains the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The plans that block the deletion of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_blocked: Option<Vec<BlockingPlan>>,
    /// The next steps as texts of the front end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Vec<String>>,
    /// The tool that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<NamespacedName>,
    /// The folder of the sandbox that the user asked to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Descriptions of the contents of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Vec<String>>,
    /// Descriptions of the processes that have the database open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<String>>,
    /// The path of the backup of the data from before the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_saved_to: Option<String>,
    /// The path of the database from before the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_set_aside: Option<String>,
}

/// Reads a fact that is present. Without this, `null` would read as an absent fact.
fn some<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A file of a repository that the user has not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UntrustedFile {
    /// Relative to `repository`.
    pub file: ResourcePath,
    /// The root of the working tree.
    pub repository: AbsolutePath,
    /// The hash of the content that was read.
    pub hash: String,
    pub state: UntrustedState,
    /// Descriptions of what the file does; `None` if it is not known.
    pub effects: Option<Vec<String>>,
}

/// Why a file is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntrustedState {
    /// The user never trusted any content of this file.
    FirstUse,
    /// The user trusted different content.
    Changed,
}

/// A problem of a definition, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionProblem {
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// The path of the value in the definition.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

/// A plan that blocks a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockingPlan {
    pub plan_id: PlanId,
    pub phase: Phase,
    pub state: PlanState,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_fact_without_a_value_is_not_an_absent_fact() {
        let facts = FailureFacts {
            pid: Some(None),
            ..FailureFacts::default()
        };
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"{"pid":null}"#);
        assert_eq!(serde_json::from_str::<FailureFacts>(&text).unwrap(), facts);
        let absent: FailureFacts = serde_json::from_value(json!({})).unwrap();
        assert_eq!(absent, FailureFacts::default());
    }

    #[test]
    fn facts_of_a_newer_server_are_ignored() {
        let newer: Value = json!({"hunks": 2, "unheard_of": true});
        let facts: FailureFacts = serde_json::from_value(newer).unwrap();
        assert_eq!(facts.hunks, Some(2));
    }
}
