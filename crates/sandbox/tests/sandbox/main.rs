//! Sandboxes tested from outside: real git, real files, nothing of the machine's own settings.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod borrowed_objects;
mod capture;
mod concurrency;
mod diff;
mod edits;
mod environment;
mod escapes;
mod folders;
mod git_directories;
mod limits;
mod line_ends;
mod log;
mod net_changes;
mod properties;
mod publish;
mod repositories;
mod restore;
mod stop_signal;
