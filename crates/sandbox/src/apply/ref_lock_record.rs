//! The record of the ref locks that a git transaction of an apply holds: `ref-locks.json`.
//!
//! It exists from before the transaction starts until its locks are gone, so after a kill the next
//! call knows which locks git may have left.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::apply::json_file::JsonFile;
use crate::apply::ref_transaction::LockFile;
use crate::files::{Sync, io_error, replace_with_sync};

#[derive(Debug, Clone)]
pub(crate) struct RefLockRecord(JsonFile<Vec<LockFile>>);

impl RefLockRecord {
    /// `folder` is the folder of the apply.
    pub(crate) fn new(folder: &Path) -> Self {
        Self(JsonFile::new(folder.join("ref-locks.json")))
    }

    /// Records the locks that a git transaction holds. Empty before they are known.
    pub(crate) fn write(&self, locks: &[LockFile]) -> SandboxResult<()> {
        let bytes = serde_json::to_vec(locks).map_err(|error| SandboxError::Malformed {
            what: error.to_string(),
        })?;
        replace_with_sync(self.0.path(), &bytes, Sync::No)
    }

    /// Returns the recorded locks if a transaction was started and not forgotten.
    pub(crate) fn read(&self) -> SandboxResult<Option<Vec<LockFile>>> {
        self.0.read()
    }

    /// Returns when the locks were recorded, in Unix seconds.
    pub(crate) fn written_at(&self) -> SandboxResult<i64> {
        let path = self.0.path();
        let found = fs::metadata(path).map_err(io_error(path))?;
        Ok(found.mtime())
    }

    pub(crate) fn forget(&self) -> SandboxResult<()> {
        self.0.remove()
    }
}
