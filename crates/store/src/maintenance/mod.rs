//! Keeping a database: [`mod@backup`] and [`mod@restore`] in one format for every engine, collection of
//! what nobody needs ([`collect`]), and a look at its health ([`health`]).

mod archive;
mod backup;
mod collect;
mod health;
mod restore;
mod tables;

pub use archive::Manifest;
pub use backup::Backup;
pub use collect::{Collected, Retention};
pub use health::{Finding, Statistics};
pub use restore::{Altered, Existing, Restored, Target, inspect, restore};

use std::sync::Arc;

/// Hears how far a long task has come: what is being done, and how many of it so far.
pub type Progress = Arc<dyn Fn(&str, u64) + Send + Sync>;
