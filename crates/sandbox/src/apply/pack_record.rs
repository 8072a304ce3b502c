//! The record of the pack with which an apply installs new objects in the user's repository.
//!
//! The pack is made in `packing/`. `keep` names the `.keep` file that protects it in the user's
//! repository. `keep` is written before the pack is installed, and removed when the objects belong to
//! the user or are withdrawn.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleveragents_domain::id::ApplyId;
use cleveragents_ports::sandbox::SandboxResult;

use crate::files::{path_from_bytes, read_if_exists, remove, replace, system_time};
use crate::pack;

#[derive(Debug, Clone)]
pub(crate) struct PackRecord {
    owner: ApplyId,
    packing: PathBuf,
    keep_path: PathBuf,
}

impl PackRecord {
    /// `folder` is the folder of the apply.
    pub(crate) fn new(folder: &Path, owner: ApplyId) -> Self {
        Self {
            owner,
            packing: folder.join("packing"),
            keep_path: folder.join("keep"),
        }
    }

    /// The folder in which the pack is made.
    pub(crate) fn packing(&self) -> &Path {
        &self.packing
    }

    /// The modification time of this apply's pack. It identifies the pack, because no other has it.
    pub(crate) fn time(&self) -> SystemTime {
        system_time(self.owner.created_at())
    }

    /// Returns whether new objects were installed that nothing of the user's needs yet.
    pub(crate) fn exists(&self) -> bool {
        self.keep_path.is_file()
    }

    /// Records the path of the `.keep` file that will protect new objects in the user's repository.
    pub(crate) fn write_keep_path(&self, keep: &Path) -> SandboxResult<()> {
        replace(&self.keep_path, keep.as_os_str().as_bytes())
    }

    /// Removes the `.keep` file, because a ref protects the new objects from now on.
    pub(crate) fn release_keep(&self) -> SandboxResult<()> {
        match read_if_exists(&self.keep_path)? {
            Some(path) => remove(path_from_bytes(&path)),
            None => Ok(()),
        }
    }

    /// Leaves the new objects to the user: they are not withdrawn from now on.
    pub(crate) fn hand_over(&self) -> SandboxResult<()> {
        self.release_keep()?;
        // Removed after the `.keep` file, because only this record names it.
        remove(&self.keep_path)
    }

    /// Removes the installed objects, and what a kill or a full disk left of installing them.
    pub(crate) fn withdraw(&self) -> SandboxResult<()> {
        if let Some(path) = read_if_exists(&self.keep_path)? {
            pack::withdraw(path_from_bytes(&path), &self.owner.to_string(), self.time())?;
            // Removed last: after a kill, the withdrawal is repeated from the start (law 9).
            remove(&self.keep_path)?;
        }
        Ok(())
    }
}
