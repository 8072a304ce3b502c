//! Locks that serialise work on one apply and writes into one repository or folder.
//!
//! Both are OS locks. A command that does its own work waits for them. A command that finishes the
//! work of another does not: the holder may be suspended and would block every such command.

use std::fs::File;
use std::path::Path;

use cleveragents_ports::targets::{TargetError, TargetResult};

use crate::apply::LocalTargets;
use crate::apply::record::LocalApplyRecord;
use crate::process_lock;
use crate::references;
use crate::repository::UserRepository;

/// Whether to wait for a lock that another process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// Waits for each holder up to a timeout, so a queue that moves on is waited for.
    Bounded,
    Never,
}

impl LockWait {
    /// Acquires the lock. Fails with [`TargetError::Held`] if another process keeps it.
    pub(crate) fn acquire(self, path: &Path) -> TargetResult<File> {
        match self {
            Self::Bounded => Ok(process_lock::acquire(path)?),
            Self::Never => process_lock::try_acquire(path)?.ok_or_else(|| TargetError::Held {
                lock: path.to_owned(),
            }),
        }
    }
}

impl LocalTargets {
    pub(super) fn lock_apply(&self, record: &LocalApplyRecord) -> TargetResult<File> {
        record.lock(self.lock_wait)
    }

    pub(super) fn lock_repository(&self, repository: &UserRepository) -> TargetResult<File> {
        self.lock_folder(&repository.common_dir)
    }

    pub(super) fn lock_folder(&self, folder: &Path) -> TargetResult<File> {
        self.lock_wait
            .acquire(&references::lock_file_path(&self.locks, folder))
    }
}
