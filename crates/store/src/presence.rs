//! Which processes use a data directory: each holds an OS lock on `run/<owner>.lock` while it
//! lives. The kernel frees the lock when the process dies, however it dies, so a free lock is
//! proof of death.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use cleveragents_engine::ports::{Liveness, Result, Verdict};
use serde::{Deserialize, Serialize};

use crate::files::{create_private_folder, explain, open_private};

/// What a process says of itself in its lock file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Card {
    pub pid: u32,
    pub command: String,
    pub since: Timestamp,
}

/// This process's presence in a data directory; ends when dropped or when the process dies.
#[derive(Debug)]
pub struct Presence {
    folder: PathBuf,
    node: String,
    owner: OwnerId,
    /// Holds the OS lock.
    _file: File,
    /// Whether the file stays when this process ends.
    keep_proof: AtomicBool,
}

impl Presence {
    /// Announces `owner`, a fresh id, in `<data directory>/run`.
    pub fn announce(
        data_directory: &Path,
        node: String,
        owner: OwnerId,
        card: &Card,
    ) -> Result<Self> {
        let folder = data_directory.join("run");
        let file = lock_card(&folder, owner, card).map_err(|e| explain(&folder, &e))?;
        Ok(Self {
            folder,
            node,
            owner,
            _file: file,
            keep_proof: AtomicBool::new(false),
        })
    }

    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The live processes that use the directory, this one left out.
    pub fn others(&self) -> Result<Vec<Card>> {
        let io_error = |e: io::Error| explain(&self.folder, &e);
        let mut cards = Vec::new();
        for (owner, path) in lock_files(&self.folder).map_err(io_error)? {
            if owner != self.owner
                && probe(&path) == Verdict::Alive
                && let Some(card) = read_card(&path)
            {
                cards.push(card);
            }
        }
        Ok(cards)
    }

    /// What a live process of this directory says of itself.
    pub fn card_of(&self, owner: OwnerId) -> Option<Card> {
        let path = lock_path(&self.folder, owner);
        (probe(&path) == Verdict::Alive).then(|| read_card(&path))?
    }

    /// Lock files of the dead that are not in `keep`; with `remove`, they are taken away. Returns
    /// their number.
    pub fn sweep(&self, keep: &HashSet<OwnerId>, remove: bool) -> Result<u64> {
        let io_error = |e: io::Error| explain(&self.folder, &e);
        let mut swept = 0;
        for (owner, path) in lock_files(&self.folder).map_err(io_error)? {
            if owner == self.owner || keep.contains(&owner) {
                continue;
            }
            // The exclusive lock keeps a process that is just announcing itself from being
            // mistaken for a dead one: it checks that its file is still there (see `lock_card`).
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if file.try_lock().is_ok() {
                swept += 1;
                if remove {
                    // Gone already is as good.
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(swept)
    }
}

impl Liveness for Presence {
    fn node(&self) -> &str {
        &self.node
    }

    fn verdict(&self, owner: OwnerId) -> Verdict {
        if owner == self.owner {
            return Verdict::Alive;
        }
        probe(&lock_path(&self.folder, owner))
    }

    fn keep_proof(&self) {
        self.keep_proof.store(true, Ordering::Relaxed);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // Who may still own something leaves the file behind, as proof of its death. To others it
        // is only rubbish, which a collection takes.
        if !self.keep_proof.load(Ordering::Relaxed) {
            let _ = fs::remove_file(lock_path(&self.folder, self.owner));
        }
    }
}

fn lock_path(folder: &Path, owner: OwnerId) -> PathBuf {
    folder.join(format!("{owner}.lock"))
}

fn lock_card(folder: &Path, owner: OwnerId, card: &Card) -> io::Result<File> {
    create_private_folder(folder)?;
    let path = lock_path(folder, owner);
    loop {
        let mut file = open_private(&path)?;
        file.lock()?;
        // A sweep may have removed the file between opening and locking it: a lock on a file
        // without a name protects nobody.
        let named = fs::metadata(&path).is_ok_and(|found| {
            file.metadata()
                .is_ok_and(|held| held.ino() == found.ino() && held.dev() == found.dev())
        });
        if named {
            file.write_all(&serde_json::to_vec(card)?)?;
            return Ok(file);
        }
    }
}

/// A shared lock tells without getting into the way of others who ask the same.
fn probe(path: &Path) -> Verdict {
    match File::open(path) {
        Ok(file) if file.try_lock_shared().is_ok() => Verdict::Dead,
        Ok(_) => Verdict::Alive,
        // No file, no proof: the owner may live in another directory under a copied node name.
        Err(_) => Verdict::Unknown,
    }
}

fn read_card(path: &Path) -> Option<Card> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(4096)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn lock_files(folder: &Path) -> io::Result<Vec<(OwnerId, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let owner = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(owner) = owner.and_then(|stem| stem.parse().ok()) {
            files.push((owner, path));
        }
    }
    Ok(files)
}
