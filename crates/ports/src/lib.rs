//! The interfaces that the engine needs, as small traits over plain domain data.
//!
//! Start reading at [`store`], which runs transactions. A [`Transaction`] implements one
//! trait per noun. Adapters live in other crates and do not know each other.

pub mod actions;
pub mod actors;
pub mod applies;
pub mod blobs;
pub mod clock;
pub mod commit_history;
pub mod decisions;
pub mod entity;
pub mod error;
pub mod journal;
pub mod journal_verification;
pub mod limits;
pub mod liveness;
pub mod locks;
pub mod maintenance;
pub mod model_calls;
pub mod models;
pub mod plans;
pub mod policies;
pub mod processes;
pub mod progress;
pub mod project_files;
pub mod projects;
pub mod rebase;
pub mod runs;
pub mod sandbox;
pub mod sandbox_records;
pub mod stop;
pub mod store;
pub mod system;
pub mod targets;
pub mod tool_calls;
pub mod tools;
pub mod validations;

pub use actions::Actions;
pub use actors::{ActorRecords, ActorRow};
pub use applies::Applies;
pub use blobs::{BlobHash, Blobs, StagedBlob};
pub use clock::{Clock, Ids};
pub use decisions::{Decisions, OperationOutcome, OutcomeCounts};
pub use entity::{Entity, UniqueKey};
pub use error::{Result, StoreError};
pub use journal::{Cursor, Journal, StreamHead};
pub use limits::{Limit, OverLimit};
pub use liveness::{Liveness, OwnerStatus};
pub use locks::{LockGrant, LockRecords, LockRequest, LockRow};
pub use maintenance::Maintenance;
pub use model_calls::ModelCalls;
pub use models::{Model, Models};
pub use plans::{PlanCursor, PlanFilter, PlanPage, Plans};
pub use policies::{Policies, ProfileRow};
pub use projects::Projects;
pub use runs::{Claim, Holder, Lease, RunClaimOutcome, Runs, Slots};
pub use sandbox::{Sandbox, SandboxError, SandboxResult, Sandboxes};
pub use sandbox_records::SandboxRecords;
pub use stop::{StopReason, StopSignal};
pub use store::{Store, StoreHandle, StoreOperation, Transaction};
pub use targets::{ApplyTargets, TargetError, TargetResult};
pub use tool_calls::ToolCalls;
pub use validations::{ValidationRow, Validations};
