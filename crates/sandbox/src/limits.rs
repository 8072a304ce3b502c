//! Limits of one capture: they bound its duration and how much it stores.

use cleveragents_ports::limits::{Limit, OverLimit};
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::files::resource_path;

/// Limits of one capture. A new file counts with its apparent size, because reading the
/// holes of a sparse file takes as long as reading data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Number of paths that were not in the previous tree.
    pub new_files: u64,
    /// Bytes of all new and changed files.
    pub total_size: u64,
    /// Bytes of each new or changed file.
    pub file_size: u64,
}

impl CaptureLimits {
    /// For the content of the user's own resource, which no agent wrote.
    pub(crate) const NONE: Self = Self {
        new_files: u64::MAX,
        total_size: u64::MAX,
        file_size: u64::MAX,
    };

    /// Fails if a walk has found too many new paths.
    pub(crate) fn check_count(&self, found: u64, path: &[u8]) -> SandboxResult<()> {
        if found <= self.new_files {
            return Ok(());
        }
        limit_exceeded(Limit::CapturedFiles, self.new_files, found, path)
    }

    /// Fails if a file is too large, or if it makes the total too large. `total` includes the file.
    pub(crate) fn check_size(&self, size: u64, total: u64, path: &[u8]) -> SandboxResult<()> {
        if size > self.file_size {
            return limit_exceeded(Limit::FileSize, self.file_size, size, path);
        }
        if total > self.total_size {
            return limit_exceeded(Limit::CapturedSize, self.total_size, total, path);
        }
        Ok(())
    }
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            new_files: 200_000,
            total_size: 4 << 30,
            file_size: 4 << 30,
        }
    }
}

fn limit_exceeded(limit: Limit, allowed: u64, found: u64, path: &[u8]) -> SandboxResult<()> {
    Err(SandboxError::OverLimit(OverLimit {
        limit,
        allowed,
        found: Some(found),
        path: Some(resource_path(path)?.to_string()),
    }))
}
