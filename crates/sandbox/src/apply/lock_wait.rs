//! Turns: who may work on an apply, and who may write into a repository or folder.
//!
//! Both are OS locks. A command that does its own work waits for them. A command that finishes the
//! work of others does not: whoever holds the lock may be stopped, and would block everybody.

use std::fs::File;
use std::path::Path;

use cleveragents_engine::ports::targets::{TargetError, TargetResult};

use crate::apply::LocalTargets;
use crate::apply::record::LocalApplyRecord;
use crate::process_lock;
use crate::references;
use crate::repository::UserRepository;

/// Whether to wait for a lock that another process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// As long as each holder works on it, within bounds.
    Bounded,
    Never,
}

impl LockWait {
    /// Takes the lock, or says that another process holds it.
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
    /// The right to work on one apply.
    pub(super) fn lock_apply(&self, record: &LocalApplyRecord) -> TargetResult<File> {
        record.lock(self.lock_wait)
    }

    /// The right to write into this repository.
    pub(super) fn lock_repository(&self, repository: &UserRepository) -> TargetResult<File> {
        self.lock_folder(&repository.common_dir)
    }

    /// The right to write into this folder.
    pub(super) fn lock_folder(&self, folder: &Path) -> TargetResult<File> {
        self.lock_wait
            .acquire(&references::lock_file_path(&self.locks, folder))
    }
}
