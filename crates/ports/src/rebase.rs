//! Moves a sandbox onto the current commit of its target, or onto the current files of a folder.

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};

use super::sandbox::{SandboxBase, TreeId};
use super::targets::Conflict;

/// A sandbox with its result, and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebaseRequest {
    pub plan: PlanId,
    pub sandbox: SandboxId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub base: SandboxBase,
    /// The result.
    pub tree: TreeId,
}

/// Relation of a result to the current state of its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetRebase {
    /// The target has not moved: it is at the same commit, or the folder has the same files.
    Unchanged,
    /// The result merges with the new base; `tree` is the merge.
    Merged { base: SandboxBase, tree: TreeId },
    /// The plan and the target have conflicting changes. The work can be repeated on the new base.
    Conflicting {
        base: SandboxBase,
        conflicts: Vec<Conflict>,
    },
    /// There is no commit to rebase onto.
    Blocked(Vec<Conflict>),
}
