//! The circuit breaker with concurrent callers: its guarantees hold in every order of events.
//!
//! The reference in `cleveragents_integration_tests::breaker` defines the sequential behaviour.
//! [`exhaustive`] drives the shipped type through every order of two and three callers,
//! [`sequential`] through long histories of one; [`stress`] uses 64 threads, and [`seed_7088`]
//! replays the lost failure that prompted these tests. Tests with six callers are in the program
//! `breaker_random`, because both model checkers need the process's panic hook.

#![expect(
    clippy::unwrap_used,
    reason = "all of this is test: what fails must fail it"
)]

mod exhaustive;
mod seed_7088;
mod sequential;
mod stress;
