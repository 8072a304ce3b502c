//! Results brought home, seen from outside: real git, real files, real kills.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

#[path = "../sandbox/environment.rs"]
#[expect(dead_code, reason = "the tests of sandboxes use the rest")]
mod environment;

mod commits;
mod crashes;
mod dying;
mod home;
