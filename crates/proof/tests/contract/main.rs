//! One contract suite for every engine: the same tests, not copies.

#![expect(
    clippy::unwrap_used,
    reason = "the bodies of tests stand in plain functions, which clippy does not know as tests"
)]

mod archives;
mod blobs;
mod catalogue;
mod collection;
mod journal;
mod lock_service;
mod locks;
mod maintenance;
mod purge;
mod run_service;
mod runs;
mod slots;
mod tails;
mod tamper;
mod writes;
