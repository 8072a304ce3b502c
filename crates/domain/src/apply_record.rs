//! Records of applying a plan's changes to their targets and of unapplying them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_intent::{AppliedResult, ApplyIntent};
use crate::change::ResourcePath;
use crate::conflict::Conflict;
use crate::id::{ApplyId, PlanId, SandboxId};
use crate::project::AbsolutePath;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// One attempt, covering all resources of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyRecord {
    pub id: ApplyId,
    pub plan_id: PlanId,
    /// Position among the plan's attempts: 1, 2, 3 … Assigned by the store.
    pub number: i64,
    pub direction: ApplyDirection,
    /// The node that holds the targets.
    pub node: String,
    /// The destination as the user requested it.
    pub destination: Destination,
    pub state: ApplyState,
    pub resources: Vec<ApplyPart>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

/// The target of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// One commit on the current checkout, including its files and index; for a folder, its files.
    Current,
    /// One commit on the branch of this short name, which is created if missing. Files change only
    /// where it is checked out.
    Branch(String),
    /// Only the files.
    Worktree,
    /// A new file with a patch of the result against its base.
    Patch(AbsolutePath),
}

/// A git author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Author {
    pub name: String,
    pub email: String,
}

/// The part of an attempt that concerns one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyPart {
    /// The id under which the target knows this part.
    pub id: ApplyId,
    pub sandbox_id: SandboxId,
    pub state: ApplyPartState,
    /// Everything needed to finish this part or to abort it, also after a crash.
    pub intent: Option<Box<ApplyIntent>>,
    /// The result, such as the commit that was created.
    pub result: Option<AppliedResult>,
    /// The conflicts that stopped it.
    #[serde(default)]
    pub obstacles: Vec<Conflict>,
    /// Of a stopped part: the changes that were written and are still in the target.
    #[serde(default)]
    pub written: Vec<ResourcePath>,
}

impl ApplyRecord {
    /// Returns whether no target needed a change, so that there is nothing to undo.
    pub fn is_without_changes(&self) -> bool {
        let is_nothing = |part: &ApplyPart| part.state == ApplyPartState::Nothing;
        self.resources.iter().all(is_nothing)
    }

    /// Returns whether a target contains changes of this attempt: a part is done, or stopped
    /// half-way.
    pub fn has_written(&self) -> bool {
        let is_there =
            |part: &ApplyPart| part.state == ApplyPartState::Done || !part.written.is_empty();
        self.resources.iter().any(is_there)
    }
}

text_enum! {
    ApplyDirection: "direction" {
        Apply = "apply",
        Unapply = "unapply",
    }
}

text_enum! {
    /// The progress of an attempt. Before `decided` it can only be aborted; after `decided` it can
    /// only go forward.
    ApplyState: "state of an apply" {
        Preparing = "preparing",
        Decided = "decided",
        Done = "done",
        /// A target was changed by another program after the decision.
        Stopped = "stopped",
        // The text is stored.
        Aborted = "taken_back",
    }
}

text_enum! {
    /// The progress of one resource.
    ApplyPartState: "state of a part" {
        // The text is stored.
        Intended = "meant",
        Ready = "ready",
        /// There are no changes to apply.
        Nothing = "nothing",
        Done = "done",
        Stopped = "stopped",
        Aborted = "taken_back",
    }
}

impl ApplyState {
    /// Returns whether the attempt waits until conflicts are cleared.
    pub fn is_stopped(self) -> bool {
        self == Self::Stopped
    }

    /// Returns whether the attempt still has to be finished or aborted.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Preparing | Self::Decided)
    }
}
