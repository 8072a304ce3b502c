//! The user's index: reads it, locks it, and replaces it with only the changed paths different.
//!
//! Git never writes the user's index here. It edits a private copy that then replaces the original.
//! The lock file names the apply that holds it, so the lock of a killed apply is recognised and the
//! lock of another process is never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{CheckoutCoverage, ObjectFormat, SandboxError, SandboxResult};
use cleveragents_ports::targets::{
    ApplyIntent, ConflictReason, PathChange, PathState, TargetError, TargetResult,
};

use crate::apply::record::LocalApplyRecord;
use crate::files::{io_error, read_if_exists, remove};
use crate::repository::{UserRepository, nul_records};
use crate::user_settings::IndexForm;
use crate::view::RepositoryView;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    mode: u32,
    object: String,
    stage: u8,
    pub(crate) coverage: EntryCoverage,
}

/// Whether a sparse checkout leaves the file out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryCoverage {
    Present,
    Skipped,
}

#[derive(Debug, Default)]
pub(crate) struct Index(BTreeMap<Vec<u8>, Vec<IndexEntry>>);

impl Index {
    pub(crate) fn read(repository: &UserRepository) -> SandboxResult<Self> {
        // In a view, because the configuration in the user's git directory could make git start a
        // program.
        let view = RepositoryView::new(repository)?;
        let answer = view.call(["ls-files", "-t", "--stage", "-z"]).run()?;
        let mut index = Self::default();
        for record in nul_records(&answer) {
            let (path, entry) = parse_entry(record).ok_or_else(|| SandboxError::Malformed {
                what: "git ls-files returned unexpected output".to_owned(),
            })?;
            index.0.entry(path).or_default().push(entry);
        }
        Ok(index)
    }

    /// Returns the paths with an unresolved merge.
    pub(crate) fn unmerged(&self) -> impl Iterator<Item = &[u8]> {
        let is_unmerged = |entries: &[IndexEntry]| entries.iter().any(|entry| entry.stage != 0);
        let entries = self.0.iter();
        let unmerged = entries.filter(move |(_, entries)| is_unmerged(entries));
        unmerged.map(|(path, _)| path.as_slice())
    }

    pub(crate) fn is_skipped(&self, path: &[u8]) -> bool {
        let entries = self.0.get(path).map(Vec::as_slice);
        matches!(entries, Some([entry]) if entry.coverage == EntryCoverage::Skipped)
    }

    /// Returns whether the index has exactly this entry; `None` means no entry.
    pub(crate) fn matches(&self, path: &[u8], state: Option<&PathState>) -> bool {
        match (self.0.get(path).map(Vec::as_slice), state) {
            (None, None) => true,
            (Some([entry]), Some(state)) => {
                entry.stage == 0 && entry.mode == state.mode && entry.object == state.object
            }
            _ => false,
        }
    }

    /// Returns why the entries block a change, or `None` if they are in the old or the new state.
    pub(crate) fn conflict_reason(
        &self,
        change: &PathChange,
        is_removed: &impl Fn(&[u8]) -> bool,
    ) -> Option<ConflictReason> {
        let path = change.path.as_bytes();
        let is_known =
            self.matches(path, change.old.as_ref()) || self.matches(path, change.new.as_ref());
        if !is_known {
            let entries = self.0.get(path).map_or(&[][..], Vec::as_slice);
            let is_unmerged = entries.iter().any(|entry| entry.stage != 0);
            return Some(if is_unmerged {
                ConflictReason::Unmerged
            } else {
                ConflictReason::Staged
            });
        }
        change.new.as_ref()?;
        // A path cannot be both file and folder: entries in the way must be removed by the same
        // change.
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = slashes.map(|(at, _)| &path[..at]);
        let above = above.filter(|folder| self.0.contains_key(*folder));
        let prefix = [path, b"/"].concat();
        let below = self.0.range(prefix.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&prefix));
        let below = below.map(|(path, _)| path.as_slice());
        let stays = above.chain(below).any(|path| !is_removed(path));
        stays.then_some(ConflictReason::Staged)
    }
}

/// Returns the paths of `git add -N` in an index that git keeps in sparse form. Git expands such an
/// index to change it, and then crashes when it reads it: it does not know how many files the
/// folders of these paths have.
pub(crate) fn unexpandable_paths(repository: &UserRepository) -> SandboxResult<Vec<Vec<u8>>> {
    let settings = &repository.settings;
    if settings.coverage == CheckoutCoverage::Complete || settings.index == IndexForm::Full {
        return Ok(Vec::new());
    }
    let call = ["diff-files", "--name-only", "--diff-filter=A", "-z"];
    let answer = RepositoryView::new(repository)?.call(call).run()?;
    Ok(nul_records(&answer).map(<[u8]>::to_vec).collect())
}

fn parse_entry(record: &[u8]) -> Option<(Vec<u8>, IndexEntry)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let fields: Vec<&str> = head.split(' ').collect();
    let [tag, mode, object, stage] = fields[..] else {
        return None;
    };
    let entry = IndexEntry {
        mode: u32::from_str_radix(mode, 8).ok()?,
        object: object.to_owned(),
        stage: stage.parse().ok()?,
        coverage: match tag {
            "S" => EntryCoverage::Skipped,
            _ => EntryCoverage::Present,
        },
    };
    Some((record[tab + 1..].to_vec(), entry))
}

/// The user's git is blocked while this is held. Only a killed process leaves the file behind.
#[derive(Debug)]
pub(crate) struct IndexLock {
    path: PathBuf,
    text: Vec<u8>,
}

impl IndexLock {
    /// Locks an index. A lock left by a killed call of this apply is taken over.
    pub(crate) fn acquire(git_dir: &Path, intent: &ApplyIntent) -> TargetResult<Self> {
        let path = git_dir.join("index.lock");
        let text = format!(
            "agents is applying plan {} (apply {}).\n\
             Was it interrupted? Any agents command finishes it.\n",
            intent.plan, intent.id
        );
        let lock = Self {
            path,
            text: text.into_bytes(),
        };
        // A hard link makes the lock appear with its text, never empty.
        let beside = git_dir.join(format!(".agents-{}-lock", intent.id));
        write_new(&beside, &lock.text)?;
        let linked = match fs::hard_link(&beside, &lock.path) {
            // Without hard links the file exists for a moment before its text is written.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                create_new(&lock.path, &lock.text)
            }
            linked => linked,
        };
        remove(&beside)?;
        match linked {
            Ok(()) => {
                // Synced so that after a power failure a missing lock means that it was removed.
                let folder = File::open(git_dir).and_then(|folder| folder.sync_all());
                folder.map_err(io_error(git_dir))?;
                Ok(lock)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if lock.is_ours()? {
                    Ok(lock)
                } else {
                    Err(TargetError::Busy {
                        lock: lock.path.clone(),
                    })
                }
            }
            Err(error) => Err(io_error(&lock.path)(error).into()),
        }
    }

    fn is_ours(&self) -> SandboxResult<bool> {
        Ok(read_if_exists(&self.path)?.as_deref() == Some(&self.text))
    }

    /// Removes the lock that a killed call of this apply may have left.
    pub(crate) fn release_leftover(git_dir: &Path, intent: &ApplyIntent) -> TargetResult<()> {
        if !git_dir.join("index.lock").exists() {
            return Ok(());
        }
        match Self::acquire(git_dir, intent) {
            Ok(_) | Err(TargetError::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if self.is_ours().unwrap_or(false) {
            // If the removal fails, the next git command reports the lock by its path.
            let _ = remove(&self.path);
        }
    }
}

fn write_new(path: &Path, content: &[u8]) -> SandboxResult<()> {
    // A killed call may have left the temporary file; its name contains the apply, so it is ours.
    remove(path)?;
    create_new(path, content).map_err(io_error(path))
}

fn create_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)
}

/// New index entries for some paths.
#[derive(Debug)]
pub(crate) struct IndexEdit<'a> {
    pub(crate) repository: &'a UserRepository,
    pub(crate) format: ObjectFormat,
    /// Paths and their new states; `None` removes the entry.
    pub(crate) entries: Vec<(&'a ResourcePath, Option<&'a PathState>)>,
    /// Paths without a file in the working tree: they keep or get the skip-worktree flag.
    pub(crate) skipped: BTreeSet<&'a ResourcePath>,
}

impl IndexEdit<'_> {
    /// Replaces the user's index. The caller must hold its lock. All other entries stay the same.
    pub(crate) fn install(&self, record: &LocalApplyRecord) -> SandboxResult<()> {
        // The view has a copy of the index, so git's own crash or kill cannot damage the user's.
        let view = RepositoryView::new(self.repository)?;
        let call = view.call(["update-index", "-z", "--index-info"]);
        call.run_with(&self.index_info_lines())?;
        let mut skipped = Vec::new();
        for (path, state) in &self.entries {
            if state.is_some() && self.skipped.contains(path) {
                skipped.extend_from_slice(path.as_bytes());
                skipped.push(0);
            }
        }
        if !skipped.is_empty() {
            let call = ["update-index", "--skip-worktree", "-z", "--stdin"];
            view.call(call).run_with(&skipped)?;
        }
        // Files that the user changed make the refresh exit non-zero; that is not an error.
        match view.call(["update-index", "-q", "--refresh"]).output() {
            // The refresh only saves work later, so a failure of git is ignored.
            Ok(_) | Err(SandboxError::Git { .. }) => {}
            Err(error) => return Err(error),
        }
        let git_dir = &self.repository.git_dir;
        replace_index_file(
            &view.index(),
            &git_dir.join("index"),
            &git_dir.join(format!(".agents-{}-index", record.id)),
        )
    }

    /// Removals come first: a file may become a folder, or a folder a file.
    fn index_info_lines(&self) -> Vec<u8> {
        let nothing = "0".repeat(self.format.id_length());
        let mut lines = Vec::new();
        let mut line = |head: String, path: &ResourcePath| {
            lines.extend_from_slice(head.as_bytes());
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        };
        for (path, state) in &self.entries {
            if state.is_none() {
                line(format!("0 {nothing}\t"), path);
            }
        }
        for (path, state) in &self.entries {
            if let Some(state) = state {
                line(format!("{:o} {}\t", state.mode, state.object), path);
            }
        }
        lines
    }
}

/// Moves the copy over the user's index. Keeps the permissions, and the time at which git wrote the
/// copy, because git uses that time to decide which files it must check again.
fn replace_index_file(copy: &Path, users: &Path, beside: &Path) -> SandboxResult<()> {
    let install = || -> io::Result<()> {
        // A killed call may have left it.
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let written = fs::metadata(copy)?.modified()?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(beside)?;
        io::copy(&mut File::open(copy)?, &mut file)?;
        if let Ok(found) = fs::metadata(users) {
            file.set_permissions(found.permissions())?;
        }
        file.set_modified(written)?;
        file.sync_all()?;
        fs::rename(beside, users)?;
        match users.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    install().map_err(io_error(users))
}
