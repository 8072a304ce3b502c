//! The program seen from outside: real processes in an environment of their own.
//!
//! `cases` is the table of commands whose output is pinned by snapshots; `tree` walks the command
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
mod data;
mod decisions;
mod demo;
mod environment;
mod executed;
mod invariants;
mod machine;
mod model_actors;
mod models;
mod places;
mod plan_commands;
mod plans;
mod postgres;
mod projects;
mod rejections;
mod restore;
mod results;
mod sandboxes;
mod seed_errors;
mod seeds;
mod settings;
mod story;
mod streams;
mod terminal;
mod tools;
mod tree;
mod usage;
mod validations;
