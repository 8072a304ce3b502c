//! Runs commands of agents so that they can neither reach beyond their sandbox nor outlive their
//! owner.
//!
//! A command is started confined and waits; it does nothing before [`PreparedCommand::run`]. So its
//! identity can be made durable first, and the next owner of the plan can reliably kill it.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network, ProcessIdentity};

use super::limits::OverLimit;
use super::stop::{StopReason, StopSignal};

pub type ProcessResult<T> = std::result::Result<T, ProcessError>;

pub trait Processes: Send + Sync + Debug {
    /// Returns the confinement level of this machine. Fails if it is below the required level, in
    /// which case [`Processes::prepare`] fails too.
    fn confinement(&self) -> ProcessResult<Confinement>;

    /// Whether a command with denied network can reach nothing but its sandbox, so that discarding
    /// the sandbox undoes all its effects.
    fn denies_network(&self) -> bool;

    /// Starts the command, confined and waiting for its start signal.
    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn PreparedCommand>>;

    /// Kills everything left of a command that a dead owner started. Returns when none of its
    /// processes is alive. Does nothing for a process that is gone or belongs to an earlier boot.
    fn kill_leftovers(&self, mark: &ProcessIdentity) -> ProcessResult<()>;
}

/// A started command that waits for its start signal. Killed if dropped.
pub trait PreparedCommand: Send + Debug {
    fn identity(&self) -> &ProcessIdentity;

    /// Lets the command run and waits for its end. Ends it on a stop signal or a timeout. When this
    /// returns, no process of its tree is alive.
    fn run(self: Box<Self>, stop: &StopSignal) -> ProcessResult<FinishedCommand>;
}

/// A command and what it may access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedCommand {
    pub argv: Vec<OsString>,
    /// The sandbox's tree: the working directory, writable.
    pub tree: PathBuf,
    /// A private folder outside the tree, used as `HOME` and `TMPDIR`; writable.
    pub scratch: PathBuf,
    pub access: TreeAccess,
    pub network: Network,
    pub timeout: Duration,
    /// Maximum kept size of stdout and of stderr, in bytes; the middle is cut out.
    pub output_limit: usize,
    /// Content of the command's standard input.
    pub stdin: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeAccess {
    ReadOnly,
    Writable,
}

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
    /// Ended by a signal that we did not send.
    Signalled(i32),
    /// Ended by us.
    Stopped(StopReason),
    /// Ended because it exceeded a limit.
    OverLimit(OverLimit),
}

/// Output whose middle is cut out if it was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedOutput {
    pub start: Vec<u8>,
    /// Number of bytes cut out between `start` and `end`.
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
