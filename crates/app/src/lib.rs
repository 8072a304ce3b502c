//! The handlers of all requests: the only way into the product.
//!
//! A front end builds an [`App`] from the adapters it chose, and calls it with a request of the
//! `api` crate. A handler is an `impl` of [`Handler`], one file per request, in a folder by noun.
//! Nothing here prints, reads the environment or knows a terminal, so that a second front end gets
//! the same behaviour: masking of secrets, actions of a project's own files, warnings, next steps.
//!
//! Start reading at [`app`](mod@app), then `action/show.rs`.

mod action;
mod actor;
pub mod app;
mod automation_profile;
mod build_once;
pub mod changes;
mod definition;
mod drive;
pub mod execution;
pub mod failure;
mod gc;
mod info;
mod invariant;
mod name_pattern;
pub mod nearest;
mod next_steps;
mod notices;
pub mod plan;
mod process_state;
mod progress;
mod project;
pub mod project_actions;
mod provenance;
mod recover_applies;
mod resource;
pub mod resource_directory;
mod sandbox;
mod services;
pub mod text;
mod tool;
pub mod trust;
pub mod uncommitted;
mod validation;
pub mod watch;

pub use action::{shell_quote, validate_action};
pub use actor::{read_actor_to_add, validate_actor};
pub use app::{Adapters, App, AppDeps, Caller, Handler, RecoveryPolicy};
pub use automation_profile::read_profile_to_add;
pub use failure::RequestError;
pub use name_pattern::NamePattern;
pub use progress::ProgressHub;
pub use tool::{list_tools, run_tool, show_tool};
pub use validation::read_validation_to_add;
