//! Keeping a database: [`mod@backup`] and [`mod@restore`] in one format for every engine, collection of
//! what nobody needs ([`collect`]), and a look at its health ([`health`]).

mod archive;
mod backup;
mod collect;
mod health;
mod restore;
mod tables;

pub use archive::BackupManifest;
pub use backup::BackupReport;
pub use collect::{CollectionReport, Retention};
pub use health::{HealthFinding, Statistics};
pub use restore::{
    AlteredBackupPolicy, ExistingDataPolicy, RestoreReport, RestoreTarget, inspect_backup, restore,
};

use std::sync::Arc;

/// Hears how far a long task has come: what is being done, and how many of it so far.
pub type ProgressCallback = Arc<dyn Fn(&str, u64) + Send + Sync>;
