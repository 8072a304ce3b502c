//! Applying results, tested from outside: real git, real files, real kills.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

#[path = "../sandbox/environment.rs"]
mod environment;

#[path = "../sandbox/edits.rs"]
mod edits;

mod aborts;
mod apply_helpers;
mod checkouts;
mod commits;
mod conflicts;
mod crash_process;
mod crashes;
mod destinations;
mod filters;
mod folders;
mod hostile_configuration;
mod indexes;
mod locks;
mod properties;
mod races;
mod reversals;
mod submodules;
mod tripwires;
mod user_changes;
