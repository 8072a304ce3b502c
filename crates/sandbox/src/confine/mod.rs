//! Commands of agents, confined and supervised: the port of processes.
//!
//! Four processes take part, each `agents` but the last:
//!
//! ```text
//! owner ── supervisor ── bubblewrap, or `agents` putting Landlock upon itself ── the command
//! ```
//!
//! The owner ([`LocalProcesses`]) starts the supervisor as `agents __run` and holds one socket to
//! it. The supervisor does nothing before the word to go comes through that socket; when the socket
//! closes, because the owner says so or because it is dead, it kills all that descends from it. It
//! is the reaper of its descendants, so a command that forks twice and leaves its session is still
//! found, and the supervisor's own end says that nothing of the tree is alive.
//!
//! Start reading at `local` (the owner's side), then `supervisor`, `policy` (what a command may
//! touch) and the two ways to enforce it, `bubblewrap` and `landlock`. Nothing here knows the
//! environment or a terminal: both are given as values.

mod bubblewrap;
mod disk_usage;
mod family;
mod inner;
mod kept;
mod landlock;
mod level;
mod limits;
mod local;
mod no_sockets;
mod places;
mod policy;
mod sockets;
mod supervisor;

pub use inner::run;
pub use level::Wanted;
pub use limits::ProcessLimits;
pub use local::LocalProcesses;
pub use places::ProcessSettings;
