//! Captures the current tree as a git tree and computes the changes since the previous one.
//!
//! We walk the tree ourselves and read every changed file through an open descriptor, because
//! `git add` would obey attributes, filters and configuration that an agent wrote. Only files whose
//! stat does not prove them unchanged are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{
    Capture, FileChange, OmissionReason, OmittedPath, SandboxResult, TouchedPaths, TreeId,
};
use cleveragents_safe_fs::refused_names::is_gitmodules;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::attributes::{Attributes, AutoCrlf};
use crate::blobs::{self, BlobSource, StoredBlob};
use crate::captured_tree::CapturedTree;
use crate::changes;
use crate::convert::{self, ConversionRules};
use crate::entries::{
    EXECUTABLE, FILE, GITLINK, LINK, TreeChange, TreeEntries, TreeEntry, parent_folders,
};
use crate::files::{io_error, path_from_bytes, resource_path};
use crate::filters::{MAX_POINTER_SIZE, StorableContent, is_pointer};
use crate::gitmodules;
use crate::new_objects::NewObjects;
use crate::object_id::{ObjectKind, hash_object};
use crate::record_tree;
use crate::safe_fs::{FileStat, open_file, open_root};
use crate::sandbox::LocalSandbox;
use crate::walk::{SandboxWalker, WalkResult};

/// A larger `.gitmodules` is not checked when it is captured.
const MAX_MODULES_SIZE: u64 = 1 << 20;

/// The result of reading the tree, before anything is recorded.
#[derive(Debug, Default)]
struct CaptureDraft {
    /// New and changed entries, and those whose file was read again and is the same.
    read: BTreeMap<Vec<u8>, TreeEntry>,
    deleted: BTreeSet<Vec<u8>>,
    omitted: BTreeSet<(Vec<u8>, OmissionReason)>,
    /// All there are now.
    empty_directories: BTreeSet<Vec<u8>>,
}

pub(crate) fn capture(
    sandbox: &mut LocalSandbox,
    previous: &TreeId,
    touched: &TouchedPaths,
) -> SandboxResult<Capture> {
    let loaded = sandbox.take_captured(previous)?;
    // Without the entries of the previous tree, the whole tree must be walked.
    let paths = match (&loaded, touched) {
        (Some(_), TouchedPaths::Paths(paths)) if !affects_ignore_rules(paths) => Some(paths),
        _ => None,
    };
    let mut known = match loaded {
        Some(known) => known,
        None => CapturedTree::in_memory(previous, sandbox.store.entries_of(previous)?),
    };
    let root = sandbox.layout.tree();
    let mut objects = sandbox.store.new_objects();
    let draft = read_folder(sandbox, &root, &known.entries, paths, &mut objects)?;
    let changes = list_changes(sandbox, &known.entries, &draft)?;
    let change = TreeChange {
        files: draft.read,
        deleted: draft.deleted,
        folders: BTreeMap::new(),
        empty_directories: draft.empty_directories,
    };
    let tree = record_tree::record_tree(sandbox, &mut known, change, objects)?;
    sandbox.captured = Some(known);
    let omitted = draft.omitted.into_iter().map(|(path, why)| {
        let path = resource_path(&path)?;
        Ok(OmittedPath { path, why })
    });
    Ok(Capture {
        tree,
        changes,
        omitted: omitted.collect::<SandboxResult<_>>()?,
    })
}

/// Records a folder that is not the sandbox's tree as a tree of its store. What of the folder
/// cannot be read stays as it is in `previous`. The sandbox must be held.
pub(crate) fn capture_resource(
    sandbox: &mut LocalSandbox,
    resource: &Path,
    previous: &TreeId,
) -> SandboxResult<TreeId> {
    let mut known = CapturedTree::in_memory(previous, sandbox.store.entries_of(previous)?);
    let mut objects = sandbox.store.new_objects();
    let draft = read_folder(sandbox, resource, &known.entries, None, &mut objects)?;
    let mut change = TreeChange {
        files: draft.read,
        deleted: draft.deleted,
        folders: BTreeMap::new(),
        empty_directories: draft.empty_directories,
    };
    record_tree::write_tree(sandbox, &mut known, &mut change, objects)
}

/// Reads these paths of a folder, or all of it, and stores what is not in `before`.
fn read_folder(
    sandbox: &mut LocalSandbox,
    root: &Path,
    before: &TreeEntries,
    paths: Option<&Vec<ResourcePath>>,
    objects: &mut NewObjects,
) -> SandboxResult<CaptureDraft> {
    // Taken before the first file is looked at: what is written later cannot look older.
    let now = sandbox.filesystem_time()?;
    let rules = sandbox.ignore_rules()?;
    let mut walker =
        SandboxWalker::new(root, &rules, before)?.bounded(&sandbox.store.stop, sandbox.limits);
    match paths {
        None => walker.walk_all()?,
        Some(paths) => paths
            .iter()
            .try_for_each(|path| walker.walk_path(path.as_bytes()))?,
    }
    let walked = std::mem::take(&mut walker.result);
    let mut draft = read_changes(sandbox, root, before, &walked, objects)?;
    for entry in draft.read.values_mut() {
        // A file written in this clock tick can be written again without its stat changing. Do not
        // trust it.
        entry.stat = entry.stat.filter(|stat| stat.changed < now);
    }
    draft.empty_directories = empty_directories(before, &walked, &draft, &mut walker)?;
    Ok(draft)
}

fn list_changes(
    sandbox: &LocalSandbox,
    before: &TreeEntries,
    draft: &CaptureDraft,
) -> SandboxResult<Vec<FileChange>> {
    let paths: BTreeSet<&Vec<u8>> = draft.read.keys().chain(&draft.deleted).collect();
    let old = paths.iter().filter_map(|path| {
        let entry = before.files.get(*path)?;
        Some(((*path).clone(), *entry))
    });
    let old = TreeEntries {
        files: old.collect(),
        ..TreeEntries::default()
    };
    let new = TreeEntries {
        files: draft.read.clone(),
        ..TreeEntries::default()
    };
    changes::file_changes(sandbox, &old, &new, &paths, &sandbox.attributes)
}

/// A change of ignore rules can make any path visible, so the whole tree must be walked.
fn affects_ignore_rules(paths: &[ResourcePath]) -> bool {
    let is_rules = |path: &ResourcePath| path.as_bytes().ends_with(b".gitignore");
    paths.iter().any(is_rules)
}

fn read_changes(
    sandbox: &mut LocalSandbox,
    root: &Path,
    before: &TreeEntries,
    walked: &WalkResult,
    objects: &mut NewObjects,
) -> SandboxResult<CaptureDraft> {
    let mut draft = CaptureDraft {
        omitted: walked.omitted.clone(),
        deleted: find_deleted(before, walked),
        ..CaptureDraft::default()
    };
    let root = open_root(root)?;
    let root = root.as_fd();
    let mut files: Vec<(&Vec<u8>, &FileStat)> = Vec::new();
    let mut total = 0_u64;
    for (path, stat) in &walked.files {
        let known = before.files.get(path).and_then(|entry| entry.stat);
        if known == Some(*stat) {
            continue;
        }
        if is_read_denied(root, path, stat) {
            draft
                .omitted
                .insert((path.clone(), OmissionReason::Unreadable));
        } else {
            // Checked before any file is read, because a sparse file takes as long to read as its
            // size says.
            total = total.saturating_add(stat.size);
            sandbox.limits.check_size(stat.size, total, path)?;
            files.push((path, stat));
        }
    }
    let paths = files.iter().map(|(path, _)| path.as_slice());
    let paths = paths.chain(draft.deleted.iter().map(Vec::as_slice));
    let paths: Vec<&[u8]> = paths.collect();
    sandbox.load_attributes(&paths)?;
    let reading = CaptureReader {
        sandbox,
        before,
        root,
    };
    reading.store_files(&files, &mut draft, objects)?;
    Ok(draft)
}

/// Context for reading files.
struct CaptureReader<'a> {
    sandbox: &'a LocalSandbox,
    before: &'a TreeEntries,
    root: BorrowedFd<'a>,
}

impl CaptureReader<'_> {
    fn store_files(
        &self,
        files: &[(&Vec<u8>, &FileStat)],
        draft: &mut CaptureDraft,
        objects: &mut NewObjects,
    ) -> SandboxResult<()> {
        let mut plain: Vec<(&Vec<u8>, BlobSource<'_>)> = Vec::new();
        for (path, stat) in files {
            self.sandbox.store.check_stop()?;
            if stat.kind() == FileType::Symlink {
                plain.push((path, BlobSource::Link(path)));
                continue;
            }
            if self.is_refused_modules(path, stat)? {
                let omitted = ((*path).clone(), OmissionReason::Modules);
                draft.omitted.insert(omitted);
                continue;
            }
            match self.convert(path, stat)? {
                None => plain.push((path, BlobSource::File(path))),
                Some(entry) => drop(draft.read.insert((*path).clone(), entry)),
            }
        }
        let known = |path: &Vec<u8>| self.before.files.get(path).map(|entry| entry.object);
        let sources: Vec<_> = plain
            .iter()
            .map(|(path, source)| (*source, known(path)))
            .collect();
        let stored = blobs::store(&self.sandbox.store, self.root, &sources, objects)?;
        for ((path, source), stored) in plain.into_iter().zip(stored) {
            match self.entry(path, source, stored)? {
                Some(entry) => drop(draft.read.insert(path.clone(), entry)),
                None => drop(
                    draft
                        .omitted
                        .insert((path.clone(), OmissionReason::Filtered)),
                ),
            }
        }
        Ok(())
    }

    /// Returns whether a file is a new `.gitmodules` that git would refuse when the plan is applied.
    fn is_refused_modules(&self, path: &[u8], stat: &FileStat) -> SandboxResult<bool> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        if !is_gitmodules(name) || stat.size > MAX_MODULES_SIZE {
            return Ok(false);
        }
        let (mut file, _) = blobs::open(self.root, path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(io_error(path_from_bytes(path)))?;
        let store = &self.sandbox.store;
        let object = hash_object(store.format, ObjectKind::Blob, &bytes)?;
        let known = self.before.files.get(path);
        if known.is_some_and(|entry| entry.object == object) {
            return Ok(false);
        }
        Ok(gitmodules::find_refusal(store, &bytes)?.is_some())
    }

    /// Stores a file that git keeps in another form. Returns `None` for any other file.
    fn convert(&self, path: &[u8], stat: &FileStat) -> SandboxResult<Option<TreeEntry>> {
        let Some(attributes) = self.attributes(path) else {
            return Ok(None);
        };
        let shaping = &self.sandbox.properties.shaping;
        let known = self.before.files.get(path);
        let rules = ConversionRules {
            attributes,
            autocrlf: AutoCrlf::from_settings(shaping),
        };
        let stored = convert::to_git(self.sandbox, self.root, path, known, rules)?;
        Ok(stored.map(|stored| TreeEntry {
            mode: git_mode(shaping, stored.stat.as_ref().unwrap_or(stat), known),
            object: stored.object,
            stat: stored.stat,
            content: Some(stored.content),
        }))
    }

    /// Returns the entry of a file stored unchanged, or `None` if its filter forbids storing it.
    fn entry(
        &self,
        path: &[u8],
        source: BlobSource<'_>,
        stored: StoredBlob,
    ) -> SandboxResult<Option<TreeEntry>> {
        let known = self.before.files.get(path);
        let filter = self.attributes(path).and_then(Attributes::filter);
        let is_link = matches!(source, BlobSource::Link(_));
        let is_same = known.is_some_and(|entry| entry.object == stored.object);
        if let Some(filter) = filter
            && !is_link
            && !is_same
            && !self.can_store(path, filter)?
        {
            return Ok(None);
        }
        let mode = match (is_link, &stored.stat) {
            (true, _) | (_, None) => LINK,
            (false, Some(stat)) => git_mode(&self.sandbox.properties.shaping, stat, known),
        };
        Ok(Some(TreeEntry {
            mode,
            object: stored.object,
            stat: stored.stat,
            content: Some(stored.content),
        }))
    }

    /// Returns whether git may store the content of a file with this filter.
    fn can_store(&self, path: &[u8], filter: &str) -> SandboxResult<bool> {
        match self.sandbox.store.git.allowed.storable_content(filter) {
            StorableContent::Nothing => Ok(false),
            StorableContent::Anything => Ok(true),
            StorableContent::Pointer => {
                let (file, _) = blobs::open(self.root, path)?;
                let mut bytes = Vec::new();
                // One more byte shows that the file is too long for a pointer.
                file.take(MAX_POINTER_SIZE + 1)
                    .read_to_end(&mut bytes)
                    .map_err(io_error(path_from_bytes(path)))?;
                Ok(is_pointer(&bytes))
            }
        }
    }

    fn attributes(&self, path: &[u8]) -> Option<&Attributes> {
        self.sandbox.attributes.get(path)
    }
}

/// Returns the mode that git would record for a regular file.
fn git_mode(shaping: &[(String, String)], stat: &FileStat, known: Option<&TreeEntry>) -> u32 {
    let is_off = |name: &str| {
        let setting = shaping.iter().find(|(key, _)| key == name);
        setting.is_some_and(|(_, value)| value.eq_ignore_ascii_case("false"))
    };
    match known.map(|entry| entry.mode) {
        // Without symbolic links, git represents a link as a file that contains the target.
        Some(LINK) if is_off("core.symlinks") => LINK,
        Some(mode @ (FILE | EXECUTABLE)) if is_off("core.filemode") => mode,
        _ if is_off("core.filemode") => FILE,
        _ if stat.mode & 0o100 != 0 => EXECUTABLE,
        _ => FILE,
    }
}

/// Returns whether read permission is denied. Such a file must not be treated as deleted.
fn is_read_denied(root: BorrowedFd<'_>, path: &[u8], stat: &FileStat) -> bool {
    let readable = stat.mode & 0o400 != 0 || stat.kind() == FileType::Symlink;
    !readable && matches!(open_file(root, path), Err(Errno::ACCESS | Errno::PERM))
}

fn find_deleted(before: &TreeEntries, walked: &WalkResult) -> BTreeSet<Vec<u8>> {
    let mut deleted = BTreeSet::new();
    for scope in &walked.scopes {
        let itself = before.files.get_key_value(scope.as_slice());
        // Both sequences are sorted, so walk them in parallel.
        let mut found = walked.files.range(scope.clone()..).peekable();
        for (path, entry) in itself.into_iter().chain(before.entries_in(scope)) {
            while found.next_if(|(found, _)| *found < path).is_some() {}
            let is_there = match entry.mode {
                GITLINK => walked.submodules.contains(path),
                _ => found.peek().is_some_and(|(found, _)| *found == path),
            };
            if !is_there && !is_in_unreadable(path, walked) {
                deleted.insert(path.clone());
            }
        }
    }
    deleted
}

fn is_in_unreadable(path: &[u8], walked: &WalkResult) -> bool {
    walked
        .unreadable
        .iter()
        .any(|folder| is_within(path, folder))
}

fn is_within(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || folder.is_empty(),
        None => false,
    }
}

/// Returns the empty directories: all inside the inspected scopes, and parents of them that lost
/// their last file or got their first.
fn empty_directories(
    before: &TreeEntries,
    walked: &WalkResult,
    draft: &CaptureDraft,
    walker: &mut SandboxWalker<'_>,
) -> SandboxResult<BTreeSet<Vec<u8>>> {
    let looked_at = |path: &Vec<u8>| {
        let in_scope = walked.scopes.iter().any(|scope| is_within(path, scope));
        in_scope && !is_in_unreadable(path, walked)
    };
    let kept = before.empty_directories.iter().filter(|it| !looked_at(it));
    let mut empty: BTreeSet<Vec<u8>> = kept.chain(&walked.empty_directories).cloned().collect();
    let filtered = draft
        .omitted
        .iter()
        .filter(|(_, why)| matches!(why, OmissionReason::Filtered | OmissionReason::Modules));
    let filtered = filtered.map(|(path, _)| path);
    let around: BTreeSet<&[u8]> = walked
        .scopes
        .iter()
        .chain(filtered)
        .flat_map(|path| parent_folders(path))
        .collect();
    for folder in around {
        if !has_files(before, draft, folder) && walker.is_leaf(folder)? {
            empty.insert(folder.to_vec());
        } else {
            empty.remove(folder);
        }
    }
    Ok(empty)
}

/// Returns whether a folder has files after the changes.
fn has_files(before: &TreeEntries, draft: &CaptureDraft, folder: &[u8]) -> bool {
    let mut prefix = folder.to_vec();
    prefix.push(b'/');
    let mut stays = before
        .entries_in(folder)
        .filter(|(path, _)| !draft.deleted.contains(*path));
    let mut read = draft.read.range(prefix.clone()..);
    stays.next().is_some()
        || read
            .next()
            .is_some_and(|(path, _)| path.starts_with(&prefix))
}
