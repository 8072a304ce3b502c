//! The program seen from outside: real processes in an environment of their own.
//!
//! `cases` is the table of commands whose output is pinned by snapshots; `command_tree` walks the command
//! tree and fails for a command that is missing there, has no help, or no example that parses.
//! To accept changed snapshots: `INSTA_UPDATE=always cargo test -p cleveragents-cli`, then read
//! the difference.

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
mod models;
mod plan_commands;
mod plan_fixture;
mod postgres;
mod projects;
mod rejections;
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
