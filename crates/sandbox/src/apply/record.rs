//! What is kept of one apply in the data directory: `applies/<id>/`, and a lock beside it.
//!
//! `intent.json` is written when preparing ends, `begun` before the first change of the user's and
//! `done.json` after the last. `new/` and `old/` hold the changed files as they are to be and as
//! they were, which is also the journal from which a folder is put back.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleveragents_domain::id::ApplyId;
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{Applied, ApplyIntent, TargetError, TargetResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::apply::ref_transaction::LockFile;
use crate::apply::turns::LockWait;
use crate::apply::user_moves::Marks;
use crate::files::{
    Sync, create_private_folder, failed, is_absent, path_of, read_if_there, remove, replace,
    replace_quickly, system_time,
};
use crate::pack;

/// The folder of one apply.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: ApplyId,
    folder: PathBuf,
}

impl Record {
    pub(crate) fn of(root: &Path, id: ApplyId) -> Self {
        Self {
            id,
            folder: root.join(id.to_string()),
        }
    }

    /// Holds this apply against everybody else who would work on it.
    pub(crate) fn hold(&self, wait: LockWait) -> TargetResult<File> {
        let root = self.folder.parent().unwrap_or(&self.folder);
        create_private_folder(root)?;
        let path = self.folder.with_extension("lock");
        loop {
            let held = wait.take(&path)?;
            let ours = held.metadata().map_err(failed(&path))?;
            // Who forgets an apply removes its lock: one that is no longer there locks nobody out.
            match std::fs::metadata(&path) {
                Ok(found) if found.ino() == ours.ino() => return Ok(held),
                _ => drop(held),
            }
        }
    }

    /// Begins with nothing.
    pub(crate) fn make_anew(&self) -> SandboxResult<()> {
        remove(&self.folder)?;
        create_private_folder(&self.folder)
    }

    pub(crate) fn remove(&self) -> SandboxResult<()> {
        // The intent goes first: what is half removed can no longer be carried out.
        remove(&self.intent_file())?;
        remove(&self.folder)?;
        remove(&self.folder.with_extension("lock"))
    }

    /// The store in which everything is worked out.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("git")
    }

    pub(crate) fn packing(&self) -> PathBuf {
        self.folder.join("packing")
    }

    /// The changed files as they are to be.
    pub(crate) fn new_files(&self) -> PathBuf {
        self.folder.join("new")
    }

    /// The changed files as they were.
    pub(crate) fn old_files(&self) -> PathBuf {
        self.folder.join("old")
    }

    pub(crate) fn patch(&self) -> PathBuf {
        self.folder.join("patch")
    }

    /// An index of ours; what a killed git left there is removed.
    pub(crate) fn fresh_index(&self, name: &str) -> SandboxResult<PathBuf> {
        let path = self.folder.join(format!("index-{name}"));
        remove(&path)?;
        remove(&self.folder.join(format!("index-{name}.lock")))?;
        Ok(path)
    }

    pub(crate) fn is_there(&self) -> bool {
        self.intent_file().is_file()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.folder.join("begun").is_file()
    }

    /// Says that the user's files change from here on. What marks tell of is how the user's side
    /// is left by a kill. The new objects are theirs from now on.
    pub(crate) fn note_begun(&self, marks: &Marks) -> SandboxResult<()> {
        self.release_keep()?;
        remove(&self.pack_note())?;
        self.write(&self.folder.join("begun"), marks)
    }

    /// The marks of a call that was killed; nothing if it came to an end by itself.
    pub(crate) fn marks(&self) -> Option<Marks> {
        let bytes = read_if_there(&self.folder.join("begun")).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// A call that has begun ends by itself, not done. Needs no space.
    pub(crate) fn note_paused(&self) -> SandboxResult<()> {
        let path = self.folder.join("begun");
        match OpenOptions::new().write(true).truncate(true).open(&path) {
            Err(error) if !is_absent(&error) => Err(failed(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Nothing that was written stands any more: it is as if it had only been prepared.
    pub(crate) fn note_put_back(&self) -> SandboxResult<()> {
        remove(&self.folder.join("begun"))
    }

    pub(crate) fn intent(&self) -> TargetResult<ApplyIntent> {
        let forgotten = TargetError::Forgotten { id: self.id };
        self.read(&self.intent_file())?.ok_or(forgotten)
    }

    pub(crate) fn keep_intent(&self, intent: &ApplyIntent) -> SandboxResult<()> {
        self.write(&self.intent_file(), intent)
    }

    pub(crate) fn done(&self) -> TargetResult<Option<Applied>> {
        self.read(&self.folder.join("done.json"))
    }

    pub(crate) fn note_done(&self, applied: &Applied) -> SandboxResult<()> {
        self.write(&self.folder.join("done.json"), applied)
    }

    /// Notes the locks that a transaction of git has; none before they are known.
    pub(crate) fn note_ref_locks(&self, locks: &[LockFile]) -> SandboxResult<()> {
        let bytes = serde_json::to_vec(locks).map_err(|error| SandboxError::Malformed {
            what: error.to_string(),
        })?;
        replace_quickly(&self.ref_locks_file(), &bytes, Sync::No)
    }

    /// The noted locks, if a transaction was begun and not forgotten.
    pub(crate) fn ref_locks(&self) -> TargetResult<Option<Vec<LockFile>>> {
        self.read(&self.ref_locks_file())
    }

    /// When the locks were noted, in seconds of the clock.
    pub(crate) fn ref_locks_noted_at(&self) -> SandboxResult<i64> {
        let path = self.ref_locks_file();
        let found = fs::metadata(&path).map_err(failed(&path))?;
        Ok(found.mtime())
    }

    pub(crate) fn forget_ref_locks(&self) -> SandboxResult<()> {
        remove(&self.ref_locks_file())
    }

    fn ref_locks_file(&self) -> PathBuf {
        self.folder.join("ref-locks.json")
    }

    /// Notes which file will keep new objects in the user's repository.
    pub(crate) fn note_keep(&self, keep: &Path) -> SandboxResult<()> {
        replace(&self.folder.join("keep"), keep.as_os_str().as_bytes())
    }

    /// The time that the pack of this apply has, which nobody else gives it.
    pub(crate) fn given_at(&self) -> SystemTime {
        system_time(self.id.made_at())
    }

    /// From here on a ref keeps the new objects.
    pub(crate) fn release_keep(&self) -> SandboxResult<()> {
        match read_if_there(&self.pack_note())? {
            Some(path) => remove(path_of(&path)),
            None => Ok(()),
        }
    }

    /// Whether new objects were given that nothing of the user's needs yet.
    pub(crate) fn has_pack(&self) -> bool {
        self.pack_note().is_file()
    }

    /// Removes the objects that were given, and what a kill or a full disk left of giving them.
    pub(crate) fn withdraw_pack(&self) -> SandboxResult<()> {
        if let Some(path) = read_if_there(&self.pack_note())? {
            pack::withdraw(path_of(&path), &self.id.to_string(), self.given_at())?;
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

    fn read<T: DeserializeOwned>(&self, path: &Path) -> TargetResult<Option<T>> {
        let Some(bytes) = read_if_there(path)? else {
            return Ok(None);
        };
        let value = serde_json::from_slice(&bytes).map_err(|error| SandboxError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Some(value))
    }
}
