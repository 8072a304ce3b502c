//! Plans at work: what the owner of a plan does and records while it is carried out.
//!
//! [`context`] records changes. Whoever starts a changeset gets its handle, and a change is
//! recorded through a handle only: it cannot land in another's changeset, whoever started one
//! meanwhile (law 4). [`Executor`] drives a plan through Strategize and Execute; start reading
//! there, then at [`ToolRunner`], through which every call of a tool goes.

mod blocking;
pub(crate) mod checkpoints;
pub mod context;
mod error;
mod executor;
mod gates;
mod guidance;
mod judge;
mod moved;
mod outlook;
mod owning;
pub mod patch;
mod refused;
mod reject;
mod removed;
pub mod results;
pub(crate) mod rollback;
mod runner;
mod slot;
mod steps;
mod strategize;
mod surroundings;
mod talking;
mod thinking;
mod time;
mod validate;
mod word;
mod work;
mod workspace;

pub use checkpoints::CheckpointPolicy;
pub use context::{Changeset, ExecutionContext};
pub use error::{Elsewhere, ExecutionError, Result};
pub use executor::{Executed, ExecutionPolicy, Executor, Left, MayApply, Means};
pub use outlook::{NextMove, Outlook};
pub(crate) use owning::OwnedWork;
pub use reject::{RejectError, Rejected, Rejection};
pub use removed::WorkAgain;
pub use results::{Results, ResultsError, Selection};
pub use rollback::{CheckpointChoice, Rollback, RolledBack, SetBack};
pub use runner::{CallOutcome, Place, Refusal, RefusalKind, ToolRequest, ToolRunner};
pub use strategize::strategy_hash;
pub use workspace::{Seat, Workspace};
pub(crate) use workspace::{all_here, base_of, change_sandbox};
