//! The record of one apply in the data directory: `applies/<id>/`, and a lock file beside it.
//!
//! `intent.json` is written at the end of preparation, `begun` before the first change of the user's
//! data and `done.json` after the last. `new/` and `old/` hold the changed files in both states; a
//! folder is restored from them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::id::ApplyId;
use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::{AppliedResult, ApplyIntent, TargetError, TargetResult};

use crate::apply::json_file::JsonFile;
use crate::apply::lock_wait::LockWait;
use crate::apply::own_folders::NewFolders;
use crate::apply::pack_record::PackRecord;
use crate::apply::ref_lock_record::RefLockRecord;
use crate::apply::user_changes::RepositoryMarks;
use crate::files::{create_private_folder, io_error, is_not_found, remove};

#[derive(Debug, Clone)]
pub(crate) struct LocalApplyRecord {
    pub(crate) id: ApplyId,
    pub(crate) pack: PackRecord,
    pub(crate) ref_locks: RefLockRecord,
    /// The folders that the commit creates, recorded before it starts. Absent in a record of an older
    /// version.
    pub(crate) own_folders: JsonFile<Vec<NewFolders>>,
    folder: PathBuf,
    intent: JsonFile<ApplyIntent>,
    /// Empty if the call that wrote it ended by itself.
    begun: JsonFile<RepositoryMarks>,
    done: JsonFile<AppliedResult>,
}

impl LocalApplyRecord {
    pub(crate) fn new(root: &Path, id: ApplyId) -> Self {
        let folder = root.join(id.to_string());
        Self {
            id,
            pack: PackRecord::new(&folder, id),
            ref_locks: RefLockRecord::new(&folder),
            own_folders: JsonFile::new(folder.join("own-folders.json")),
            intent: JsonFile::new(folder.join("intent.json")),
            begun: JsonFile::new(folder.join("begun")),
            done: JsonFile::new(folder.join("done.json")),
            folder,
        }
    }

    /// Locks this apply against other processes.
    pub(crate) fn lock(&self, wait: LockWait) -> TargetResult<File> {
        let root = self.folder.parent().unwrap_or(&self.folder);
        create_private_folder(root)?;
        let path = self.folder.with_extension("lock");
        loop {
            let lock = wait.acquire(&path)?;
            let ours = lock.metadata().map_err(io_error(&path))?;
            // Forgetting an apply removes its lock file. A lock on a removed file excludes no
            // other process, so retry.
            match std::fs::metadata(&path) {
                Ok(found) if found.ino() == ours.ino() => return Ok(lock),
                _ => drop(lock),
            }
        }
    }

    /// Removes the record and creates an empty one.
    pub(crate) fn recreate(&self) -> SandboxResult<()> {
        remove(&self.folder)?;
        create_private_folder(&self.folder)
    }

    pub(crate) fn remove(&self) -> SandboxResult<()> {
        // The intent is removed first, so a partly removed record can no longer be committed.
        self.intent.remove()?;
        remove(&self.folder)?;
        // Removed last; `lock` notices that the file it waited for is gone.
        remove(&self.folder.with_extension("lock"))
    }

    /// The private store in which the apply is computed.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("git")
    }

    /// The changed files in their new state.
    pub(crate) fn new_files(&self) -> PathBuf {
        self.folder.join("new")
    }

    /// The changed files in their old state.
    pub(crate) fn old_files(&self) -> PathBuf {
        self.folder.join("old")
    }

    pub(crate) fn patch(&self) -> PathBuf {
        self.folder.join("patch")
    }

    /// Returns the path for a private index, after removing what a killed git left there.
    pub(crate) fn fresh_index(&self, name: &str) -> SandboxResult<PathBuf> {
        let path = self.folder.join(format!("index-{name}"));
        remove(&path)?;
        remove(&self.folder.join(format!("index-{name}.lock")))?;
        Ok(path)
    }

    pub(crate) fn exists(&self) -> bool {
        self.intent.exists()
    }

    pub(crate) fn intent(&self) -> TargetResult<ApplyIntent> {
        let forgotten = TargetError::Forgotten { id: self.id };
        self.intent.read()?.ok_or(forgotten)
    }

    pub(crate) fn write_intent(&self, intent: &ApplyIntent) -> SandboxResult<()> {
        self.intent.write(intent)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.exists()
    }

    /// Records that the user's files change from now on. The marks describe the user's repository
    /// as a kill would leave it. The new objects belong to the user from now on.
    pub(crate) fn mark_begun(&self, marks: &RepositoryMarks) -> SandboxResult<()> {
        // From `begun` on recovery only completes, so the pack must no longer be withdrawn.
        self.pack.hand_over()?;
        self.begun.write(marks)
    }

    /// Returns the marks of a call that was killed, or `None` if the call ended by itself.
    pub(crate) fn marks(&self) -> Option<RepositoryMarks> {
        self.begun.read().ok()?
    }

    /// Records that a started call ended by itself before it was done. Works on a full disk.
    pub(crate) fn mark_paused(&self) -> SandboxResult<()> {
        let path = self.begun.path();
        // Truncated and not removed: the file still says that the apply has begun.
        match OpenOptions::new().write(true).truncate(true).open(path) {
            Err(error) if !is_not_found(&error) => Err(io_error(path)(error)),
            _ => Ok(()),
        }
    }

    /// Records that nothing we wrote is left: the apply is only prepared again.
    pub(crate) fn mark_restored(&self) -> SandboxResult<()> {
        self.begun.remove()
    }

    pub(crate) fn read_done(&self) -> TargetResult<Option<AppliedResult>> {
        Ok(self.done.read()?)
    }

    pub(crate) fn mark_done(&self, applied: &AppliedResult) -> SandboxResult<()> {
        self.done.write(applied)
    }
}
