//! Running plans: what the owner of a plan does and records in Strategize and Execute.
//!
//! Start reading at [`Executor`], which claims a plan, then at `plan_run`, the value that its phases
//! borrow, `drive`, which runs the phases, and [`ToolRunner`], which makes every tool call.
//! [`changesets`] records changes: starting a changeset returns its handle, and a change is
//! recorded only through a handle. So a change cannot land in another changeset, even if one is
//! started concurrently (law 4).

mod agent_loop;
mod blocking;
mod call_index;
pub mod changesets;
pub(crate) mod checkpoints;
mod decisions_in_force;
mod drive;
mod error;
mod execute_phase;
mod execute_request;
mod executor;
mod guidance;
mod llm_actor;
mod ownership;
pub mod patch;
mod plan_run;
mod preflight;
mod profile_decisions;
mod refused_changes;
mod reject;
mod removed_sandboxes;
pub mod results;
mod resume_preview;
mod revalidate;
mod rollback;
mod runner;
mod secret_files;
mod services;
mod slot;
mod steps;
mod strategize;
mod time_budget;
mod unfinished_work;
mod validate;
mod validation_runner;
mod validator;
mod workspace;

pub(crate) use agent_loop::request_items;
pub use changesets::{Changeset, ExecutionContext};
pub use checkpoints::CheckpointPolicy;
pub use error::{ExecutionError, LocalOperation, Result, WrongNode};
pub(crate) use execute_request::add_approvals;
pub use executor::{AutoApply, ExecuteOutcome, Executor, QueueOutcome};
pub(crate) use ownership::{Owned, OwnerError, StoppableWork, claim_run, own_plan, run_stoppable};
pub(crate) use plan_run::PlanRun;
pub(crate) use refused_changes::listed_refusals;
pub use reject::{RejectError, RejectOutcome, Rejection};
pub use removed_sandboxes::RedoCommand;
pub use results::{ResultReader, ResultsError, Selection};
pub use resume_preview::{NextMove, ResumePreview};
pub(crate) use revalidate::MergeValidator;
pub use rollback::{CheckpointChoice, RollbackOutcome, RollbackRecord};
pub use runner::{CallOutcome, RefusalKind, ToolCallContext, ToolRefusal, ToolRequest, ToolRunner};
pub use secret_files::SecretFiles;
pub use services::{EngineServices, ExecutionPolicy, ExecutorDeps};
pub use slot::SlotQueue;
pub use strategize::strategy_hash;
pub(crate) use unfinished_work::interrupt_unfinished;
pub(crate) use validate::newest_summary;
pub use workspace::{SandboxHandle, Workspace};
pub(crate) use workspace::{base_of, change_sandbox_state, require_local_sandboxes};
