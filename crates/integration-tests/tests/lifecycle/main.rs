//! The lifecycle of actions and plans on every engine: guarantees for one caller and for concurrent
//! callers.

#![expect(
    clippy::unwrap_used,
    reason = "the bodies of tests stand in plain functions, which clippy does not know as tests"
)]

mod action_use;
mod actions;
mod actors;
mod changesets;
mod commands;
mod confidence;
mod correction_races;
mod corrections;
mod decisions;
mod example;
mod executing;
mod fixture;
mod history;
mod invariants;
mod many_plans;
mod matrix;
mod model;
mod owners;
mod preflight;
mod profiles;
mod project_deletion;
mod projects;
mod questions;
mod recovery;
mod releasing;
mod removal;
mod sample_moves;
mod sandbox_gc;
mod seed_1281;
mod seed_7120;
mod seed_7120_processes;
mod seed_7333;
mod stale_reads;
mod tool_calls;
mod validations;
mod working_plan;
