//! Runs commands of agents confined and supervised. Implements the process port.
//!
//! ```text
//! owner ── supervisor ── [bubblewrap ──] `agents`, which confines itself and becomes the command
//! ```
//!
//! The owner ([`LocalProcesses`]) starts the supervisor (`agents __run`) and holds one socket to it. The
//! supervisor waits for the start signal on that socket. When the socket closes, because the owner
//! closed it or died, the supervisor kills all its descendants. It is their subreaper, so a command
//! that forks twice and leaves its session is still found, and the end of the supervisor proves that no
//! process of the tree is alive. This module reads neither the environment nor a terminal.
//! Start reading at `local` (owner), then `supervisor`, `machine_rules` (what a command may access),
//! `grants`, `bubblewrap` and `landlock` (how that is enforced), and `entry_point` (the last steps).

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
