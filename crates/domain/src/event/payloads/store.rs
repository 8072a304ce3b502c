//! Payloads about the journal and the store themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Payloads of this stream were erased on request. This payload is never erased itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadPurged {
    /// The positions of the erased payloads.
    pub places: Vec<i64>,
    pub reason: String,
}

/// The data directory or database was initialised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreInitialised {
    /// The version of the program.
    pub version: String,
    pub node: String,
}

/// A backup was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupCreated {
    pub path: String,
    pub bytes: u64,
    /// Row counts by table, and the number of `blobs`.
    pub contents: BTreeMap<String, u64>,
}

/// The contents were restored from a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupRestored {
    pub created_at: Timestamp,
    /// The version of the program that wrote the backup.
    pub written_by: String,
    /// Row counts by table, and the number of `blobs`.
    pub contents: BTreeMap<String, u64>,
}

/// Unused data was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GarbageCollected {
    pub operations: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
    pub stray_files: u64,
    pub dead_processes: u64,
}
