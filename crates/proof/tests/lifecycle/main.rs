//! The lifecycle of actions and plans on every engine: what the service promises one caller, and
//! what it promises many at once.

#![expect(
    clippy::unwrap_used,
    reason = "the bodies of tests stand in plain functions, which clippy does not know as tests"
)]

mod actions;
mod actors;
mod asks;
mod changesets;
mod commands;
mod confidence;
mod correction_races;
mod corrections;
mod crowd;
mod decisions;
mod example;
mod giving_back;
mod history;
mod invariants;
mod matrix;
mod model;
mod owners;
mod preflight;
mod profiles;
mod project_deletion;
mod projects;
mod questions;
mod recovery;
mod removal;
mod sandbox_gc;
mod scene;
mod seed_1281;
mod seed_7120;
mod seed_7120_processes;
mod seed_7333;
mod stale;
mod thinking;
mod tool_calls;
mod using;
mod validations;
