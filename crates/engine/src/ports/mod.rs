//! The interfaces that the engine needs, as small traits over plain domain data.
//!
//! Start reading at [`store`], which runs transactions. A [`Transaction`] implements one small
//! trait per subject. Adapters live in other crates and do not know each other.

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

pub use actors::{ActorRecords, ActorRow};
pub use blobs::{BlobHash, Blobs, StagedBlob};
pub use catalogue::{Actions, Plans};
pub use clock::{Clock, Ids};
pub use consents::Consents;
pub use decisions::{Corrections, Decisions};
pub use error::{Result, StoreError};
pub use errors::ErrorRecords;
pub use execution::{
    Applies, Changesets, CheckpointRecords, ModelCalls, SandboxRecords, Strategies, ToolCalls,
    ValidationRuns,
};
pub use invariants::Invariants;
pub use journal::{Cursor, Journal, StreamHead};
pub use limits::{Limit, OverLimit};
pub use liveness::{Liveness, OwnerStatus};
pub use locks::{LockGrant, LockRecords, LockRequest, LockRow};
pub use messages::Messages;
pub use models::{Model, Models};
pub use outcomes::{OperationOutcome, OutcomeCounts, Outcomes};
pub use plan_lists::{PlanCursor, PlanFilter, PlanLists, PlanPage};
pub use profiles::{ProfileRow, Profiles};
pub use projects::{Projects, Resources};
pub use runs::{Claim, Holder, Lease, RunClaimOutcome, Runs, Slots};
pub use sandbox::{Sandbox, SandboxError, SandboxResult, Sandboxes};
pub use stop::{StopReason, StopSignal};
pub use store::{Store, StoreHandle, StoreOperation, Transaction};
pub use targets::{ApplyTargets, TargetError, TargetResult};
pub use validations::{Attachments, ValidationRow, Validations};
