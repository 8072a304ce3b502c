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
//! Start reading at `local` (the owner's side), then `supervisor`, `machine_rules` (what a command may
//! touch), `grants` (the form in which that is enforced), the two ways to enforce it, `bubblewrap`
//! and `landlock`, and `entry_point` (the last steps before the command). Nothing here knows the
//! environment or a terminal: both are given as values.

mod alternates;
mod bubblewrap;
mod captured_output;
mod credentials;
mod disk_usage;
mod entry_point;
mod grants;
mod install_roots;
mod landlock;
mod level;
mod limits;
mod local;
mod machine_rules;
mod orphans;
mod own_mounts;
mod policy;
mod privileges;
mod process_tree;
mod scratch;
mod sockets;
mod streams;
mod supervisor;
mod system_calls;
mod system_paths;

pub use entry_point::run;
pub use level::{RequestedConfinement, commands_keep_root};
pub use limits::ProcessLimits;
pub use local::LocalProcesses;
pub use machine_rules::{ProcessSettings, visible_paths};
