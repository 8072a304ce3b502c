//! Moving a sandbox onto the current commit of its target.

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};

use super::sandbox::{SandboxBase, TreeId};
use super::targets::Conflict;

/// A sandbox with its result, and the target it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebaseRequest {
    pub plan: PlanId,
    pub sandbox: SandboxId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    /// What the sandbox began with.
    pub base: SandboxBase,
    /// What became of it.
    pub tree: TreeId,
}

/// How a result relates to its target as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetRebase {
    /// The target is where the sandbox began. A folder has no commits, so it never moves.
    Unchanged,
    /// The result fits the new base; `tree` is both.
    Merged { base: SandboxBase, tree: TreeId },
    /// The plan and the target changed the same; the work can be done again on the new base.
    Conflicting {
        base: SandboxBase,
        conflicts: Vec<Conflict>,
    },
    /// There is nothing to move onto.
    Blocked(Vec<Conflict>),
}
