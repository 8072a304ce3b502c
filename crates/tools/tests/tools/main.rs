//! The built-in tools as a runner calls them: schemas, work, stamps, and what they refuse.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod edit;
mod escapes;
mod filtered;
mod folders;
mod history;
mod inputs;
mod look;
mod moving;
mod outline;
mod outlined;
mod read;
mod shell;
mod swaps;
mod talk;
mod world;
mod write;
