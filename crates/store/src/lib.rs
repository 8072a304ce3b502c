//! The storage ports on SQLite, PostgreSQL and memory.
//!
//! All SQL of the project is here, one text for both engines ([`dialect`] has the exceptions).
//! [`Database`] implements the port; [`session`] implements its operations; [`sqlite`] and
//! [`postgres`] own threads and connections; [`maintenance`] backs up, restores and collects. The
//! crate reads no environment and prints nothing.

mod blob_files;
mod database;
mod dialect;
mod directory;
mod files;
mod maintenance;
mod postgres;
mod presence;
mod queue;
mod schema;
mod session;
mod sql_executor;
mod sqlite;
mod value;

pub use cleveragents_ports::maintenance::{CollectionReport, Engine, Retention, Statistics};
pub use database::{Database, StoreOptions};
pub use directory::{DataDirectory, file_system_type};
pub use maintenance::{
    AlteredBackupPolicy, BackupManifest, BackupReport, ExistingDataPolicy, HealthFinding,
    ProgressCallback, RestoreReport, RestoreTarget, inspect_backup, restore,
};
pub use presence::{ProcessInfo, ProcessPresence};
pub use schema::NEWEST_VERSION as NEWEST_SCHEMA;
pub use sqlite::version as sqlite_version;
