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
//! became of it), `record_tree` (how that is kept), `restore` (how it is put back) and `git` (how git
//! is run). [`LocalTargets`] brings results home; [`confine`] runs commands.

mod abandoned_lock;
mod account;
mod apply;
mod attributes;
mod blobs;
mod capture;
mod captured_tree;
mod changes;
mod child_io;
pub mod confine;
mod convert;
mod diff;
mod entries;
mod files;
mod filters;
mod git;
mod git_dir_links;
mod git_dir_owner;
mod git_files;
mod git_session;
mod gitmodules;
mod layout;
mod limits;
mod local;
mod log;
mod make_common;
mod make_folder;
mod make_git;
mod net_changes;
mod new_objects;
mod object_id;
mod ownership;
mod pack;
mod pack_file;
mod private_dir;
mod process_lock;
mod publish;
mod record_tree;
mod references;
mod repository;
mod repository_cache;
mod restore;
mod safe_fs;
mod sandbox;
mod scratch;
mod set_base;
mod stop_reader;
mod store;
mod tree_files;
mod tree_reader;
mod trees;
mod user_git_command;
mod user_settings;
mod view;
mod walk;
mod watch;

pub use apply::{ApplyStep, LocalTargets, NoWatcher, Watcher};
pub use git::GitSettings;
pub use limits::CaptureLimits;
pub use local::LocalSandboxes;
