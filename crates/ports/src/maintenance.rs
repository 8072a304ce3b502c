//! The database as a whole: its contents, and the removal of data that is no longer needed.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Result;

/// The result of maintenance that waits for the database.
pub type MaintenanceFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// An open database.
pub trait Maintenance: Send + Sync + Debug {
    fn facts(&self) -> DatabaseFacts;

    fn statistics(&self) -> MaintenanceFuture<'_, Statistics>;

    /// Reports what [`collect`](Self::collect) would delete.
    fn preview_collection(&self, retention: Retention) -> MaintenanceFuture<'_, CollectionReport>;

    /// Deletes what is no longer needed. Safe beside writers: anything they touch or reference
    /// meanwhile is kept.
    fn collect(&self, retention: Retention) -> MaintenanceFuture<'_, CollectionReport>;
}

/// The engine that holds the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Memory,
    Sqlite,
    Postgres,
}

impl Engine {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgresql",
        }
    }
}

/// Facts about a database that do not change while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFacts {
    pub engine: Engine,
    /// The location of the data, for messages.
    pub location: String,
    pub schema_version: i64,
}

/// Sizes and counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub streams: i64,
    pub events: i64,
    pub actions: i64,
    pub plans: i64,
    pub operations: i64,
    pub blobs: i64,
    pub blob_bytes: i64,
    pub database_bytes: i64,
}

/// Time that unreferenced data is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// For this long, a repeated operation id returns its first result.
    pub operations: Duration,
    /// An unreferenced blob is kept this long after it was last touched.
    pub blobs: Duration,
}

/// The collected data, or the data that would be collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionReport {
    pub operations: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
    pub stray_files: u64,
    pub dead_processes: u64,
}

impl CollectionReport {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
