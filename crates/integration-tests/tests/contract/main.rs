//! One contract test suite, run on every engine.

#![expect(
    clippy::unwrap_used,
    reason = "the bodies of tests stand in plain functions, which clippy does not know as tests"
)]

mod action_use;
mod actors;
mod applies;
mod archives;
mod blobs;
mod bulk;
mod catalogue;
mod changesets;
mod checkpoints;
mod collection;
mod consents;
mod corrections;
mod decisions;
mod errors;
mod foreign_events;
mod given_actions;
mod invariants;
mod journal;
mod lock_service;
mod locks;
mod maintenance;
mod messages;
mod migrations;
mod model_calls;
mod outcomes;
mod plan_deletion;
mod plan_lists;
mod plan_work;
mod profiles;
mod projects;
mod purge;
mod resources;
mod run_service;
mod runs;
mod sandboxes;
mod slots;
mod strategies;
mod tails;
mod tamper;
mod tool_calls;
mod validation_runs;
mod validations;
mod writes;
