//! Private trees of git repositories and folders, applying results from them, and running commands in
//! them. Implements the ports for sandboxes, targets and processes, and is the only user of git.
//!
//! A sandbox is a folder with `git/`, which only the host accesses, and `tree/`, the only place
//! where a tool may write. The host obeys nothing that an agent writes into a tree: no
//! configuration, attributes, hooks or links. This crate reads no clock, environment or terminal;
//! it gets values. Its calls block. All state is on disk; what a handle caches of the last captured
//! tree only saves work.
//!
//! Start reading at [`LocalSandboxes`], then `make_git` (creates a tree), `capture`, `record_tree`,
//! `restore` and `git` (runs git). [`LocalTargets`] applies results; [`confine`] runs commands.

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
mod git_call;
mod git_dir_links;
mod git_dir_owner;
mod git_files;
mod git_run;
mod git_session;
mod gitmodules;
mod history;
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
mod project_files;
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
mod temporary_names;
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
pub use history::LocalHistory;
pub use limits::CaptureLimits;
pub use local::LocalSandboxes;
pub use project_files::LocalProjectFiles;
