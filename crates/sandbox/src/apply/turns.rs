//! Turns: who may work on an apply, and who may write into a repository or folder.
//!
//! Both are OS locks. A command that does its own work waits for them. A command that finishes the
//! work of others does not: whoever holds the lock may be stopped, and would block everybody.

use std::fs::File;
use std::path::Path;

use cleveragents_engine::ports::targets::{TargetError, TargetResult};

use crate::apply::LocalTargets;
use crate::apply::record::Record;
use crate::references;
use crate::repository::Repository;
use crate::turns;

/// Whether to wait for a lock that another process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// As long as each holder works on it, within bounds.
    Bounded,
    Never,
}

impl LockWait {
    /// Takes the lock, or says that another process holds it.
    pub(crate) fn take(self, path: &Path) -> TargetResult<File> {
        match self {
            Self::Bounded => Ok(turns::wait(path)?),
            Self::Never => turns::try_take(path)?.ok_or_else(|| TargetError::Held {
                lock: path.to_owned(),
            }),
        }
    }
}

impl LocalTargets {
    /// The right to work on one apply.
    pub(super) fn hold(&self, record: &Record) -> TargetResult<File> {
        record.hold(self.lock_wait)
    }

    /// The right to write into this repository.
    pub(super) fn turn(&self, repository: &Repository) -> TargetResult<File> {
        self.turn_in_folder(&repository.common_dir)
    }

    /// The right to write into this folder.
    pub(super) fn turn_in_folder(&self, folder: &Path) -> TargetResult<File> {
        self.lock_wait
            .take(&references::turn_file(&self.locks, folder))
    }
}
