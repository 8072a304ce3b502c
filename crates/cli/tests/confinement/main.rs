//! Commands of agents, run by the real program at every level of confinement: what they cannot
//! reach, and that nothing of them outlives its owner.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod deaths;
mod diagnostics;
mod escapes;
mod host_git;
mod limits;
mod other_user;
mod rows;
mod runs;
mod terminal;
mod toolchains;
mod useful;
mod walk;
mod world;
