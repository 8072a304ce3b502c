//! Tests of the program from outside: real processes in their own environments.
//!
//! `cases` is the table of commands whose output is pinned by snapshots. `command_tree` walks the
//! command tree and fails for a command without a case, without help, or without an example that
//! parses. To accept changed snapshots: `INSTA_UPDATE=always cargo test -p cleveragents-cli`, then
//! review the diff.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod actors;
mod bad_definitions;
mod bad_input;
mod bad_storage;
mod cases;
mod command_tree;
mod concurrent_commands;
mod concurrent_errors;
mod data_directory;
mod decision_fixture;
mod decisions;
mod demo;
mod environment;
mod executed_plan;
mod handbook;
mod invariants;
mod model_actors;
mod model_providers;
mod models;
mod plan_commands;
mod plan_fixture;
mod postgres;
mod projects;
mod provenance;
mod recent_plans;
mod rejections;
mod requests;
mod resource_paths;
mod restore;
mod results;
mod sandboxes;
mod settings;
mod snapshot_filters;
mod streams;
mod terminal;
mod tools;
mod validations;
