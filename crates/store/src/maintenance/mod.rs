//! Maintenance: [`mod@backup`] and [`mod@restore`] in one format for every engine, garbage
//! collection ([`collect`]), and health checks ([`health`]).

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

/// Reports the progress of a long task: what is being processed, and how many so far.
pub type ProgressCallback = Arc<dyn Fn(&str, u64) + Send + Sync>;
