//! A sandbox of a plan, in answers about the plan.

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{BaseSource, NamespacedName, ResourceType, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A private copy of one resource for one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanSandbox {
    pub id: SandboxId,
    pub resource: NamespacedName,
    pub strategy: SandboxStrategy,
    pub base: BaseSource,
    pub base_commit: Option<String>,
    /// The reference in the user's repository under which the result is published.
    pub branch: Option<String>,
    pub status: SandboxState,
    /// The tree after the last confirmed tool call.
    pub tree: Option<TreeId>,
    pub warnings: Vec<String>,
}

/// Method of copying the files of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxStrategy {
    Git,
    Copy,
}

impl From<&SandboxRecord> for PlanSandbox {
    fn from(record: &SandboxRecord) -> Self {
        let (strategy, branch) = match record.resource_type {
            ResourceType::GitCheckout => (
                SandboxStrategy::Git,
                Some(format!("refs/cleveragents/plan-{}", record.plan_id)),
            ),
            ResourceType::FsDirectory => (SandboxStrategy::Copy, None),
        };
        Self {
            id: record.id,
            resource: record.resource_name.clone(),
            strategy,
            base: record.base,
            base_commit: record.base_commit.clone(),
            branch,
            status: record.state,
            tree: record.tree.clone(),
            warnings: record.warnings.clone(),
        }
    }
}
