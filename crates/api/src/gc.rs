//! The removal of stored data that is no longer needed. Sandboxes have a request of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};

/// Removes stored data that is older than the retention settings, and files of dead processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gc {
    /// Only reports what would be removed.
    pub dry_run: bool,
}

impl Request for Gc {
    type Answer = GcAnswer;
    const NAME: &'static str = "gc";
    const KIND: RequestKind = RequestKind::Write;

    fn kind(&self) -> RequestKind {
        if self.dry_run {
            RequestKind::Read
        } else {
            Self::KIND
        }
    }
}

/// The outcome of removing what is no longer needed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GcAnswer {
    pub dry_run: bool,
    pub collected: UnneededData,
}

/// The amounts that were removed, or would be if this was a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnneededData {
    /// Results of operations.
    pub operations: u64,
    pub blobs: u64,
    /// The size of the blobs.
    pub blob_bytes: u64,
    /// Files that belong to no blob.
    pub stray_files: u64,
    /// Files of processes that no longer run.
    pub dead_processes: u64,
}

impl UnneededData {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
