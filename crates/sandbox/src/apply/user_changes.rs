//! Detects what the user did between a kill and the call that resumes the apply.
//!
//! After a kill only the user can change the state of the repository: the index locks stay, and no
//! reflog grows. If a lock is gone or a reflog grew, the user has reset, checked out or unlocked
//! something, and the apply must not overwrite that.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_ports::targets::{ApplyIntent, Conflict, ConflictReason};
use serde::{Deserialize, Serialize};

use crate::files::path_from_bytes;
use crate::repository::UserRepository;

/// The state of the user's repository when a call starts to write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepositoryMarks {
    /// Reflogs with their sizes in bytes; 0 if there is none.
    reflogs: Vec<(Vec<u8>, u64)>,
    /// The index locks that this call holds.
    locks: Vec<Vec<u8>>,
}

impl RepositoryMarks {
    /// For a call that moves a branch or a detached `HEAD`, and the indexes that follow it.
    pub(crate) fn for_commit(
        repository: &UserRepository,
        reference: Option<&str>,
        git_dirs: &[&Path],
    ) -> Self {
        let branch = reference.map(|name| repository.common_dir.join("logs").join(name));
        let heads = git_dirs.iter().map(|it| it.join("logs/HEAD"));
        let reflogs = branch.into_iter().chain(heads);
        let locks = git_dirs.iter().map(|it| it.join("index.lock"));
        Self {
            reflogs: reflogs.map(|it| reflog_size(&it)).collect(),
            locks: locks.map(|it| path_bytes(&it)).collect(),
        }
    }

    /// For a call that changes files only, in a working tree or outside a repository.
    pub(crate) fn for_files(repository: Option<&UserRepository>) -> Self {
        let head = repository.map(|it| reflog_size(&it.git_dir.join("logs/HEAD")));
        Self {
            reflogs: head.into_iter().collect(),
            locks: Vec::new(),
        }
    }

    /// Returns whether everything is as that call left it.
    pub(crate) fn is_untouched(&self) -> bool {
        let is_same = |it: &(Vec<u8>, u64)| reflog_size(path_from_bytes(&it.0)) == *it;
        self.reflogs.iter().all(is_same) && self.locks.iter().all(|it| path_from_bytes(it).exists())
    }
}

fn reflog_size(path: &Path) -> (Vec<u8>, u64) {
    let size = path.metadata().map_or(0, |found| found.len());
    (path_bytes(path), size)
}

/// Bytes, because a path need not be UTF-8.
fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(crate) fn undone_conflict(intent: &ApplyIntent) -> Conflict {
    Conflict {
        path: None,
        place: Some(intent.resource.clone()),
        reason: ConflictReason::Undone,
    }
}
