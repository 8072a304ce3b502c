//! The built-in tools: files, folders, search, history and commands inside one sandbox, and reports
//! of actors to their plan.
//!
//! A tool does only its own work; the runner handles guards, gate, journal and capture. Every path is
//! resolved by open folders below the sandbox's tree. Outputs are bounded and contain no path of the
//! machine. A tool that changes a file first checks that the actor knows its current content. This
//! crate knows no clock, environment or git; commands run through the process port, and history comes
//! from the sandbox. Start reading at [`BuiltinTools`], then `paths` (resolves paths), `stale_check`
//! (which changes are allowed), `staging` (replaces a file) and one tool, `files/edit.rs`.

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
