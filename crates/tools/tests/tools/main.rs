//! The built-in tools as a runner calls them: schemas, effects, stamps, and refusals.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod browse;
mod capabilities;
mod control_tools;
mod edit;
mod escapes;
mod fixture;
mod folders;
mod git_filters;
mod history;
mod inputs;
mod move_copy_delete;
mod outline;
mod outline_samples;
mod read;
mod shell;
mod symlink_races;
mod write;
