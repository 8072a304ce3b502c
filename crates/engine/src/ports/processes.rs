//! Commands of agents, run so that they can neither reach beyond their sandbox nor outlive their
//! owner.
//!
//! A command is started confined and waiting; it does nothing before [`PreparedCommand::run`]. So its mark
//! can be made durable first, and whoever takes the plan over can end it for certain.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network, ProcessIdentity};

use super::limits::OverLimit;
use super::stop::{StopReason, StopSignal};

pub type ProcessResult<T> = std::result::Result<T, ProcessError>;

pub trait Processes: Send + Sync + Debug {
    /// How well a command can be confined on this machine; an error if not as well as it must be,
    /// which is what [`Processes::prepare`] would answer too.
    fn confinement(&self) -> ProcessResult<Confinement>;

    /// Whether a command whose network is denied can reach nothing but its sandbox, so that what
    /// it did is undone with its sandbox.
    fn denies_network(&self) -> bool;

    /// Starts the command, confined and waiting for its word to go.
    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn PreparedCommand>>;

    /// Kills whatever is left of a command that a dead owner started, and returns when nothing of
    /// it is alive. A mark of an earlier boot, or of a process that is gone, is nothing to do.
    fn kill_leftovers(&self, mark: &ProcessIdentity) -> ProcessResult<()>;
}

/// A command that waits for its word. Dropped without it, it is killed.
pub trait PreparedCommand: Send + Debug {
    fn identity(&self) -> &ProcessIdentity;

    /// Lets the command run and waits for its end, or ends it when told to stop or when its time
    /// is over. When this returns no process of its tree is alive.
    fn run(self: Box<Self>, stop: &StopSignal) -> ProcessResult<FinishedCommand>;
}

/// What is to be run, and what it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedCommand {
    pub argv: Vec<OsString>,
    /// The sandbox's tree: working directory, and writable.
    pub tree: PathBuf,
    /// A private folder outside the tree that becomes `HOME` and `TMPDIR`; writable.
    pub scratch: PathBuf,
    pub access: TreeAccess,
    pub network: Network,
    pub timeout: Duration,
    /// How many bytes of each of stdout and stderr are kept; the middle is left out.
    pub output_limit: usize,
    /// Given to the command's standard input.
    pub stdin: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeAccess {
    ReadOnly,
    Writable,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCommand {
    pub exit: CommandExit,
    pub stdout: TruncatedOutput,
    pub stderr: TruncatedOutput,
    pub elapsed: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandExit {
    Exited(i32),
    /// By a signal that was not ours.
    Signalled(i32),
    /// We ended it.
    Stopped(StopReason),
    /// It was ended because it used more than it may.
    OverLimit(OverLimit),
}

/// Output, its middle left out if there was too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedOutput {
    pub start: Vec<u8>,
    /// How many bytes were left out between `start` and `end`.
    pub omitted_bytes: u64,
    pub end: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    #[error("the command cannot be started: {reason}")]
    Start { reason: String },
    #[error("commands cannot be confined here: {reason}")]
    Unconfined { reason: String },
    #[error("a command of a dead owner cannot be ended: {reason}")]
    End { reason: String },
}
