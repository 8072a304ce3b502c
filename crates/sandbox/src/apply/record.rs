//! The record of one apply in the data directory: `applies/<id>/`, and a lock file beside it.
//!
//! `intent.json` is written at the end of preparation, `begun` before the first change of the user's
//! data and `done.json` after the last. `new/` and `old/` hold the changed files in both states; a
//! folder is restored from them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleveragents_domain::id::ApplyId;
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{AppliedResult, ApplyIntent, TargetError, TargetResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::apply::lock_wait::LockWait;
use crate::apply::own_folders::OwnFolders;
use crate::apply::ref_transaction::LockFile;
use crate::apply::user_changes::RepositoryMarks;
use crate::files::{
    Sync, create_private_folder, io_error, is_not_found, path_from_bytes, read_if_exists, remove,
    replace, replace_with_sync, system_time,
};
use crate::pack;

#[derive(Debug, Clone)]
pub(crate) struct LocalApplyRecord {
    pub(crate) id: ApplyId,
    folder: PathBuf,
}

impl LocalApplyRecord {
    pub(crate) fn new(root: &Path, id: ApplyId) -> Self {
        Self {
            id,
            folder: root.join(id.to_string()),
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
            // Forgetting an apply removes its lock file. A lock on a removed file excludes nobody,
            // so retry.
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
        remove(&self.intent_file())?;
        remove(&self.folder)?;
        remove(&self.folder.with_extension("lock"))
    }

    /// The private store in which the apply is computed.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("git")
    }

    pub(crate) fn packing(&self) -> PathBuf {
        self.folder.join("packing")
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
        self.intent_file().is_file()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.folder.join("begun").is_file()
    }

    /// Records that the user's files change from now on. The marks describe the user's repository
    /// as a kill would leave it. The new objects belong to the user from now on.
    pub(crate) fn mark_begun(&self, marks: &RepositoryMarks) -> SandboxResult<()> {
        self.release_keep()?;
        remove(&self.pack_note())?;
        self.write(&self.folder.join("begun"), marks)
    }

    /// Returns the marks of a call that was killed, or `None` if the call ended by itself.
    pub(crate) fn marks(&self) -> Option<RepositoryMarks> {
        let bytes = read_if_exists(&self.folder.join("begun")).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Records that a started call ended by itself before it was done. Works on a full disk.
    pub(crate) fn mark_paused(&self) -> SandboxResult<()> {
        let path = self.folder.join("begun");
        match OpenOptions::new().write(true).truncate(true).open(&path) {
            Err(error) if !is_not_found(&error) => Err(io_error(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Records that nothing we wrote is left: the apply is only prepared again.
    pub(crate) fn mark_restored(&self) -> SandboxResult<()> {
        remove(&self.folder.join("begun"))
    }

    pub(crate) fn intent(&self) -> TargetResult<ApplyIntent> {
        let forgotten = TargetError::Forgotten { id: self.id };
        self.read(&self.intent_file())?.ok_or(forgotten)
    }

    pub(crate) fn write_intent(&self, intent: &ApplyIntent) -> SandboxResult<()> {
        self.write(&self.intent_file(), intent)
    }

    pub(crate) fn read_done(&self) -> TargetResult<Option<AppliedResult>> {
        Ok(self.read(&self.folder.join("done.json"))?)
    }

    pub(crate) fn mark_done(&self, applied: &AppliedResult) -> SandboxResult<()> {
        self.write(&self.folder.join("done.json"), applied)
    }

    /// Records the folders that the commit will create, before it starts.
    pub(crate) fn write_own_folders(&self, folders: &[OwnFolders]) -> SandboxResult<()> {
        self.write(&self.folder.join("own-folders.json"), &folders)
    }

    /// Returns the recorded folders. `None` in a record of an older version.
    pub(crate) fn read_own_folders(&self) -> SandboxResult<Option<Vec<OwnFolders>>> {
        self.read(&self.folder.join("own-folders.json"))
    }

    /// Records the locks that a git transaction holds. Empty before they are known.
    pub(crate) fn write_ref_locks(&self, locks: &[LockFile]) -> SandboxResult<()> {
        let bytes = serde_json::to_vec(locks).map_err(|error| SandboxError::Malformed {
            what: error.to_string(),
        })?;
        replace_with_sync(&self.ref_locks_file(), &bytes, Sync::No)
    }

    /// Returns the recorded locks if a transaction was started and not forgotten.
    pub(crate) fn read_ref_locks(&self) -> TargetResult<Option<Vec<LockFile>>> {
        Ok(self.read(&self.ref_locks_file())?)
    }

    /// Returns when the locks were recorded, in Unix seconds.
    pub(crate) fn ref_locks_written_at(&self) -> SandboxResult<i64> {
        let path = self.ref_locks_file();
        let found = fs::metadata(&path).map_err(io_error(&path))?;
        Ok(found.mtime())
    }

    pub(crate) fn forget_ref_locks(&self) -> SandboxResult<()> {
        remove(&self.ref_locks_file())
    }

    fn ref_locks_file(&self) -> PathBuf {
        self.folder.join("ref-locks.json")
    }

    /// Records the path of the `.keep` file that will protect new objects in the user's repository.
    pub(crate) fn write_keep_path(&self, keep: &Path) -> SandboxResult<()> {
        replace(&self.folder.join("keep"), keep.as_os_str().as_bytes())
    }

    /// The modification time of this apply's pack. It identifies the pack, because no other has it.
    pub(crate) fn pack_time(&self) -> SystemTime {
        system_time(self.id.created_at())
    }

    /// Removes the `.keep` file, because a ref protects the new objects from now on.
    pub(crate) fn release_keep(&self) -> SandboxResult<()> {
        match read_if_exists(&self.pack_note())? {
            Some(path) => remove(path_from_bytes(&path)),
            None => Ok(()),
        }
    }

    /// Returns whether new objects were installed that nothing of the user's needs yet.
    pub(crate) fn has_pack(&self) -> bool {
        self.pack_note().is_file()
    }

    /// Removes the installed objects, and what a kill or a full disk left of installing them.
    pub(crate) fn withdraw_pack(&self) -> SandboxResult<()> {
        if let Some(path) = read_if_exists(&self.pack_note())? {
            pack::withdraw(
                path_from_bytes(&path),
                &self.id.to_string(),
                self.pack_time(),
            )?;
            remove(&self.pack_note())?;
        }
        Ok(())
    }

    fn pack_note(&self) -> PathBuf {
        self.folder.join("keep")
    }

    fn intent_file(&self) -> PathBuf {
        self.folder.join("intent.json")
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> SandboxResult<()> {
        let bytes = serde_json::to_vec_pretty(value).map_err(|error| SandboxError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        replace(path, &bytes)
    }

    fn read<T: DeserializeOwned>(&self, path: &Path) -> SandboxResult<Option<T>> {
        let Some(bytes) = read_if_exists(path)? else {
            return Ok(None);
        };
        let value = serde_json::from_slice(&bytes).map_err(|error| SandboxError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Some(value))
    }
}
