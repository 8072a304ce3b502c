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
pub use health::HealthFinding;
pub use restore::{
    AlteredBackupPolicy, ExistingDataPolicy, RestoreReport, RestoreTarget, inspect_backup, restore,
};

use std::sync::Arc;

use cleveragents_ports::maintenance::{
    CollectionReport, DatabaseFacts, Maintenance, MaintenanceFuture, Retention, Statistics,
};

use crate::database::Database;
use crate::schema::NEWEST_VERSION;

/// Reports the progress of a long task: what is being processed, and how many so far.
pub type ProgressCallback = Arc<dyn Fn(&str, u64) + Send + Sync>;

impl Maintenance for Database {
    fn facts(&self) -> DatabaseFacts {
        DatabaseFacts {
            engine: self.engine(),
            location: self.location(),
            // Opening a database migrates it to the newest schema.
            schema_version: NEWEST_VERSION,
        }
    }

    fn statistics(&self) -> MaintenanceFuture<'_, Statistics> {
        Box::pin(self.statistics())
    }

    fn preview_collection(&self, retention: Retention) -> MaintenanceFuture<'_, CollectionReport> {
        Box::pin(self.preview_collection(retention))
    }

    fn collect(&self, retention: Retention) -> MaintenanceFuture<'_, CollectionReport> {
        Box::pin(self.collect(retention))
    }
}
