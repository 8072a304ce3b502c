//! What the engine needs of the world, as small traits in plain domain data.
//!
//! [`store`] runs transactions; a transaction is a [`Unit`], which speaks the verbs of every
//! subject here, one small trait each. Adapters live in other crates and never see each other.

pub mod actors;
pub mod blobs;
pub mod catalogue;
pub mod clock;
pub mod consents;
pub mod decisions;
pub mod error;
pub mod errors;
pub mod execution;
pub mod invariants;
pub mod journal;
pub mod limits;
pub mod liveness;
pub mod locks;
pub mod messages;
pub mod models;
pub mod outcomes;
pub mod plan_lists;
pub mod processes;
pub mod profiles;
pub mod projects;
pub mod rebase;
pub mod runs;
pub mod sandbox;
pub mod stop;
pub mod store;
pub mod targets;
pub mod tools;
pub mod validations;

pub use actors::{ActorRow, Actors};
pub use blobs::{BlobHash, Blobs, StagedBlob};
pub use catalogue::{Actions, Plans};
pub use clock::{Clock, Ids};
pub use consents::Consents;
pub use decisions::{Corrections, Decisions};
pub use error::{Result, StoreError};
pub use errors::Errors;
pub use execution::{
    Applies, Changesets, Checkpoints, ModelCalls, SandboxRecords, Strategies, ToolCalls,
    ValidationRuns,
};
pub use invariants::Invariants;
pub use journal::{Cursor, Head, Journal};
pub use limits::{Limit, OverLimit};
pub use liveness::{Liveness, Verdict};
pub use locks::{LockGrant, LockRequest, LockRow, Locks};
pub use messages::Messages;
pub use models::{Model, Models};
pub use outcomes::{Outcome, OutcomeCounts, Outcomes};
pub use plan_lists::{PlanCursor, PlanFilter, PlanLists, PlanPage};
pub use profiles::{ProfileRow, Profiles};
pub use projects::{Projects, Resources};
pub use runs::{Claim, Claimed, Holder, Lease, Runs, Slots};
pub use sandbox::{Sandbox, SandboxError, SandboxResult, Sandboxes};
pub use stop::{Stop, Stopped};
pub use store::{Operation, Store, StoreHandle, Unit};
pub use targets::{TargetError, TargetResult, Targets};
pub use validations::{Attachments, ValidationRow, Validations};
