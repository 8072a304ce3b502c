//! The circuit breaker under many callers: what it promises holds in every order of events.
//!
//! The reference of `cleveragents_integration_tests::breaker` says in the plainest way what one caller after the
//! other would see. [`exhaustive`] drives the shipped type through every order of two and three
//! callers, [`sequential`] through long histories of one; [`stress`] lets 64 threads loose on it, and
//! [`seed_7088`] replays the lost failure that all this began with. Six callers are the program
//! `breaker_random`: both model checkers want the process's hook for panics.

#![expect(
    clippy::unwrap_used,
    reason = "all of this is test: what fails must fail it"
)]

mod exhaustive;
mod seed_7088;
mod sequential;
mod stress;
