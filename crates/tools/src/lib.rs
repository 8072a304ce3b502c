//! The built-in tools: files, folders, search, history and commands, inside one sandbox, and what
//! actors say to their plan.
//!
//! A tool does its work and nothing else: guards, the gate, the journal and the capture of changes
//! are the runner's. Every path is followed by open folders beneath the sandbox's tree, answers
//! are bounded and hold no path of the machine, and whatever changes a file asks first whether the
//! actor knows it as it is. This crate knows no clock, no environment and no git; commands run
//! through the port of processes, and history comes from the sandbox.
//!
//! Start reading at [`BuiltinTools`], then `paths` (how a path is followed), `stale_check` (who may
//! change what), `staging` (how a file is replaced) and one tool, `files/edit.rs`.

mod browse;
mod builtin;
mod control_tools;
mod excerpt;
mod file_content;
mod files;
mod folders;
mod history;
mod outline;
mod paths;
mod schema_parts;
mod schemas;
mod shell;
mod staging;
mod stale_check;
mod storable;

pub use builtin::{BuiltinTools, ToolSettings};
pub use schemas::{SchemaError, Schemas};
pub use shell::ShellSettings;
