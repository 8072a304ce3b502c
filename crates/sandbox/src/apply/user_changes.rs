//! What the user did between a kill and the call that goes on.
//!
//! A kill leaves the user's repository in a state that only they can change: the locks of the
//! indexes stay, and no reflog grows. Where that is otherwise they have reset, checked out or
//! unlocked something, and what they did is not applied over.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_engine::ports::targets::{ApplyIntent, Conflict, ConflictReason};
use serde::{Deserialize, Serialize};

use crate::files::path_from_bytes;
use crate::repository::UserRepository;

/// How the user's repository looks to a call that begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepositoryMarks {
    /// Reflogs with their sizes; none is 0.
    reflogs: Vec<(Vec<u8>, u64)>,
    /// Locks of indexes that this call has.
    locks: Vec<Vec<u8>>,
}

impl RepositoryMarks {
    /// Of a call that moves a branch, or a detached `HEAD`, with all indexes that follow it.
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

    /// Of a call that changes files, of a working tree or of no repository.
    pub(crate) fn for_files(repository: Option<&UserRepository>) -> Self {
        let head = repository.map(|it| reflog_size(&it.git_dir.join("logs/HEAD")));
        Self {
            reflogs: head.into_iter().collect(),
            locks: Vec::new(),
        }
    }

    /// Whether all is as that call left it.
    pub(crate) fn is_untouched(&self) -> bool {
        let is_same = |it: &(Vec<u8>, u64)| reflog_size(path_from_bytes(&it.0)) == *it;
        self.reflogs.iter().all(is_same) && self.locks.iter().all(|it| path_from_bytes(it).exists())
    }
}

fn reflog_size(path: &Path) -> (Vec<u8>, u64) {
    let size = path.metadata().map_or(0, |found| found.len());
    (path_bytes(path), size)
}

/// A path need not be text.
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
