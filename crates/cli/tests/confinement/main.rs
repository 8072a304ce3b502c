//! Commands of plans, run by the real program at every level of confinement: what they cannot
//! reach, and that none of their processes outlives its owner.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod allowed_operations;
mod command_runs;
mod diagnostics;
mod escape_attempts;
mod escapes;
mod host_git;
mod kernel_files;
mod limits;
mod other_user;
mod process_lifetimes;
mod terminal;
mod toolchains;
mod world;
