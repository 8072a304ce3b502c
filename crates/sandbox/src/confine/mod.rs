//! Commands of agents, confined and supervised: the port of processes.
//!
//! Four or five processes take part, each `agents` but bubblewrap and the command:
//!
//! ```text
//! owner ── supervisor ── [bubblewrap ──] `agents`, which confines itself and becomes the command
//! ```
//!
//! The owner ([`LocalProcesses`]) starts the supervisor as `agents __run` and holds one socket to
//! it. The supervisor does nothing before the word to go comes through that socket; when the socket
//! closes, because the owner says so or because it is dead, it kills all that descends from it. It
//! is the reaper of its descendants, so a command that forks twice and leaves its session is still
//! found, and the supervisor's own end says that nothing of the tree is alive.
//!
//! Start reading at `local` (the owner's side), then `supervisor`, `places` (what a command may
//! touch), `grants` (the form in which that is enforced), the two ways to enforce it, `bubblewrap`
//! and `landlock`, and `inner` (the last steps before the command). Nothing here knows the
//! environment or a terminal: both are given as values.

mod bubblewrap;
mod credentials;
mod disk_usage;
mod family;
mod grants;
mod inner;
mod install_roots;
mod kept;
mod landlock;
mod lenders;
mod level;
mod limits;
mod local;
mod orphans;
mod own_mounts;
mod places;
mod policy;
mod privileges;
mod scratch;
mod sockets;
mod streams;
mod supervisor;
mod system_calls;
mod system_places;

pub use inner::run;
pub use level::{Wanted, commands_keep_root};
pub use limits::ProcessLimits;
pub use local::LocalProcesses;
pub use places::{ProcessSettings, visible_paths};
