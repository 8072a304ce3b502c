//! Records of the sandboxes of plans, and of their checkpoints. The store assigns the `number` of a
//! checkpoint without gaps, in the insert itself, which locks the plan's stream as an append to its
//! journal does.

use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{CheckpointId, IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};

use super::Result;

pub trait SandboxRecords {
    /// Stores the intent to create a sandbox. Fails with `Taken` if the plan already has a sandbox
    /// of the resource that is not discarded.
    fn insert_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<()>;

    fn sandbox(&mut self, id: SandboxId) -> Result<SandboxRecord>;

    /// Returns the sandbox whose id starts or ends with `fragment`. Fails with `Ambiguous` if
    /// several match.
    fn find_sandbox(&mut self, fragment: &IdFragment) -> Result<SandboxRecord>;

    /// Updates the row if `sandbox.version` is the newest; returns the next version. Fails with
    /// `Refused` if the state transition is not allowed.
    fn update_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<i64>;

    /// Returns the plan's sandboxes that are not discarded, in the order of creation.
    fn sandboxes_of(&mut self, plan: PlanId) -> Result<Vec<SandboxRecord>>;

    /// Returns all sandboxes in these states, or in any state, newest first.
    fn list_sandboxes(&mut self, states: &[SandboxState]) -> Result<Vec<SandboxRecord>>;

    /// Stores a checkpoint of an existing plan, assigns its number, and removes the oldest ones
    /// beyond `keep`. The newest always stays.
    fn insert_checkpoint(&mut self, checkpoint: &Checkpoint, keep: u32) -> Result<i64>;

    /// Returns the checkpoint of the plan whose id starts or ends with `fragment`, or whose number
    /// it is (`0012` is 12, because a fragment has at least four characters). Fails with
    /// `Ambiguous` if several match.
    fn find_checkpoint(&mut self, plan: PlanId, fragment: &IdFragment) -> Result<Checkpoint>;

    /// Returns the plan's checkpoints, oldest first.
    fn checkpoints_of(&mut self, plan: PlanId) -> Result<Vec<Checkpoint>>;

    fn newest_checkpoint(&mut self, plan: PlanId) -> Result<Option<Checkpoint>>;

    /// Removes the undone marks that this checkpoint set on records of the plan.
    fn redo(&mut self, plan: PlanId, by: CheckpointId) -> Result<()>;

    /// Marks as undone the checkpoints after this number; returns how many were not yet.
    fn undo_checkpoints(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;
}
