//! Private trees of git repositories and folders, the way home from them, and the commands that run
//! in them: the ports of sandboxes, targets and processes, and the only user of git.
//!
//! A sandbox is a folder with `git/`, which is the host's alone, and `tree/`, the only place a tool
//! may write. Nothing an agent leaves in a tree is obeyed on the host's side: no configuration, no
//! attributes, no hooks, no links. This crate knows no clock, no environment and no terminal; what
//! it needs of them it is given. It blocks. All state is on disk; what a handle remembers of the tree
//! it captured last only saves work.
//!
//! Start reading at [`LocalSandboxes`], then `make_git` (how a tree comes to be), `capture` (what
//! became of it), `recording` (how that is kept), `restore` (how it is put back) and `git` (how git
//! is run). [`LocalTargets`] brings results home; [`confine`] runs commands.

mod abandoned_lock;
mod account;
mod adopt;
mod apply;
mod asked;
mod attributes;
mod beneath;
mod blobs;
mod capture;
mod changes;
pub mod confine;
mod convert;
mod diff;
mod entries;
mod exchange;
mod files;
mod filters;
mod git;
mod git_dir_links;
mod git_dir_owner;
mod git_files;
mod known;
mod layout;
mod limits;
mod local;
mod log;
mod looking;
mod make_folder;
mod make_git;
mod making;
mod modules;
mod net;
mod new_objects;
mod object_id;
mod ownership;
mod pack;
mod pack_file;
mod placing;
mod private_dir;
mod publish;
mod recording;
mod references;
mod repositories;
mod repository;
mod restore;
mod sandbox;
mod scratch;
mod stopping;
mod store;
mod trees;
mod turns;
mod user_settings;
mod users_command;
mod view;
mod walk;
mod watch;

pub use apply::{ApplyStep, LocalTargets, Unwatched, Watcher};
pub use git::GitSettings;
pub use limits::CaptureLimits;
pub use local::LocalSandboxes;
