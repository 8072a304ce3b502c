//! Capture: how a tree stands, recorded as a git tree, and what changed since the one before.
//!
//! The tree is walked by us and every changed file is read by its open descriptor; `git add` would
//! obey attributes, filters and configuration an agent wrote. Only what the stat of a file cannot
//! rule out is read at all.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::sandbox::{
    Capture, Omitted, OmittedWhy, SandboxResult, Touched, TreeId,
};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::attributes::{self, Attribute, Attributes, AutoCrlf};
use crate::beneath::{FileStat, open_file, open_root};
use crate::blobs::{self, Source};
use crate::changes;
use crate::convert;
use crate::entries::{EXECUTABLE, Entries, FILE, LINK, TreeEntry};
use crate::files::resource_path;
use crate::layout::Conversion;
use crate::repository::text;
use crate::sandbox::LocalSandbox;
use crate::walk::{Walked, Walker};

/// What a capture works out before anything is recorded.
#[derive(Debug, Default)]
struct Draft {
    /// New and changed entries, and those whose file was read again and is the same.
    read: BTreeMap<Vec<u8>, TreeEntry>,
    deleted: BTreeSet<Vec<u8>>,
    omitted: BTreeSet<(Vec<u8>, OmittedWhy)>,
    attributes: BTreeMap<Vec<u8>, Attributes>,
}

pub(crate) fn capture(
    sandbox: &LocalSandbox,
    previous: &TreeId,
    touched: &Touched,
) -> SandboxResult<Capture> {
    let loaded = sandbox.load_entries(previous)?;
    // What is not known of the previous tree cannot be relied on path by path.
    let paths = match (&loaded, touched) {
        (Some(_), Touched::Paths(paths)) if !changes_rules(paths) => Some(paths),
        _ => None,
    };
    let before = match loaded {
        Some(entries) => entries,
        None => sandbox.store.entries_of(previous)?,
    };
    // Taken before the first file is looked at: what is written later cannot look older.
    let now = sandbox.now()?;
    let rules = sandbox.rules()?;
    let mut walker = Walker::new(&sandbox.layout.tree(), &rules, &before)?;
    match paths {
        None => walker.all()?,
        Some(paths) => paths
            .iter()
            .try_for_each(|path| walker.only(path.as_bytes()))?,
    }
    let walked = std::mem::take(&mut walker.walked);
    let draft = read_changes(sandbox, &before, &walked, now)?;
    let mut after = before.clone();
    for path in &draft.deleted {
        after.files.remove(path);
    }
    after.files.extend(draft.read.clone());
    update_directories(&mut after, &walked, &draft, &mut walker)?;
    let tree = record(sandbox, previous, &before, &after, &draft)?;
    let changed: BTreeSet<&Vec<u8>> = draft.read.keys().chain(&draft.deleted).collect();
    let changes = changes::between(sandbox, &before, &after, &changed, &draft.attributes)?;
    after.save(&sandbox.layout.entries(), &tree)?;
    let omitted = draft.omitted.into_iter().map(|(path, why)| {
        let path = resource_path(&path)?;
        Ok(Omitted { path, why })
    });
    Ok(Capture {
        tree,
        changes,
        omitted: omitted.collect::<SandboxResult<_>>()?,
    })
}

/// A change of what is ignored can bring to light any path.
fn changes_rules(paths: &[ResourcePath]) -> bool {
    let is_rules = |path: &ResourcePath| path.as_bytes().ends_with(b".gitignore");
    paths.iter().any(is_rules)
}

fn read_changes(
    sandbox: &LocalSandbox,
    before: &Entries,
    walked: &Walked,
    now: i64,
) -> SandboxResult<Draft> {
    let mut draft = Draft {
        omitted: walked.omitted.clone(),
        deleted: deleted(before, walked),
        ..Draft::default()
    };
    let root = open_root(&sandbox.layout.tree())?;
    let root = root.as_fd();
    let mut files: Vec<(&Vec<u8>, &FileStat)> = Vec::new();
    for (path, stat) in &walked.files {
        let known = before.files.get(path).and_then(|entry| entry.stat);
        if known == Some(*stat) {
            continue;
        }
        if is_closed(root, path, stat) {
            draft.omitted.insert((path.clone(), OmittedWhy::Unreadable));
        } else {
            files.push((path, stat));
        }
    }
    if sandbox.made.conversion == Conversion::Possible {
        let paths = files.iter().map(|(path, _)| path.as_slice());
        let paths = paths.chain(draft.deleted.iter().map(Vec::as_slice));
        let paths: Vec<&[u8]> = paths.collect();
        let call = || sandbox.store.call([]);
        draft.attributes = attributes::of_paths(call, &paths, &Attribute::ALL)?;
    }
    store_files(sandbox, before, &files, &mut draft, root)?;
    for entry in draft.read.values_mut() {
        // Written in this very tick, it may be written again without a trace.
        entry.stat = entry.stat.filter(|stat| stat.changed < now);
    }
    Ok(draft)
}

fn store_files(
    sandbox: &LocalSandbox,
    before: &Entries,
    files: &[(&Vec<u8>, &FileStat)],
    draft: &mut Draft,
    root: BorrowedFd<'_>,
) -> SandboxResult<()> {
    let autocrlf = AutoCrlf::of(&sandbox.made.shaping);
    let mut plain: Vec<(&Vec<u8>, Source<'_>)> = Vec::new();
    let nothing = Attributes::default();
    for (path, stat) in files {
        let attributes = draft.attributes.get(*path).unwrap_or(&nothing);
        let known = before.files.get(*path);
        if stat.kind() == FileType::Symlink {
            plain.push((path, Source::Link(path)));
            continue;
        }
        let converted = convert::to_git(sandbox, root, path, known, (attributes, autocrlf))?;
        match converted {
            None => plain.push((path, Source::File(path))),
            Some(stored) => {
                let entry = TreeEntry {
                    mode: mode_of(
                        &sandbox.made.shaping,
                        stored.stat.as_ref().unwrap_or(stat),
                        known,
                    ),
                    object: stored.object,
                    stat: stored.stat,
                    content: Some(stored.content),
                };
                draft.read.insert((*path).clone(), entry);
            }
        }
    }
    let sources: Vec<Source<'_>> = plain.iter().map(|(_, source)| *source).collect();
    let stored = blobs::store(&sandbox.store, root, &sources)?;
    for ((path, source), stored) in plain.iter().zip(stored) {
        let known = before.files.get(*path);
        let filter = draft.attributes.get(*path).and_then(Attributes::filter);
        let is_link = matches!(source, Source::Link(_));
        let is_same = known.is_some_and(|entry| entry.object == stored.object);
        if filter.is_some() && !is_link && !is_same {
            draft
                .omitted
                .insert(((*path).clone(), OmittedWhy::Filtered));
            continue;
        }
        let mode = match (is_link, &stored.stat) {
            (true, _) | (_, None) => LINK,
            (false, Some(stat)) => mode_of(&sandbox.made.shaping, stat, known),
        };
        let entry = TreeEntry {
            mode,
            object: stored.object,
            stat: stored.stat,
            content: Some(stored.content),
        };
        draft.read.insert((*path).clone(), entry);
    }
    Ok(())
}

/// The mode git would give a regular file.
fn mode_of(shaping: &[(String, String)], stat: &FileStat, known: Option<&TreeEntry>) -> u32 {
    let is_off = |name: &str| {
        let setting = shaping.iter().find(|(key, _)| key == name);
        setting.is_some_and(|(_, value)| value.eq_ignore_ascii_case("false"))
    };
    match known.map(|entry| entry.mode) {
        // Where links cannot be made they are files that hold the target.
        Some(LINK) if is_off("core.symlinks") => LINK,
        Some(mode @ (FILE | EXECUTABLE)) if is_off("core.filemode") => mode,
        _ if is_off("core.filemode") => FILE,
        _ if stat.mode & 0o100 != 0 => EXECUTABLE,
        _ => FILE,
    }
}

/// Whether the file may not be read, which is no reason to take it for deleted.
fn is_closed(root: BorrowedFd<'_>, path: &[u8], stat: &FileStat) -> bool {
    let readable = stat.mode & 0o400 != 0 || stat.kind() == FileType::Symlink;
    !readable && matches!(open_file(root, path), Err(Errno::ACCESS | Errno::PERM))
}

fn deleted(before: &Entries, walked: &Walked) -> BTreeSet<Vec<u8>> {
    let mut deleted = BTreeSet::new();
    for scope in &walked.scopes {
        let itself = before.files.get_key_value(scope.as_slice());
        for (path, entry) in before.inside(scope).chain(itself) {
            let is_file = entry.mode != crate::entries::GITLINK;
            if is_file && !walked.files.contains_key(path) && !is_unseen(path, walked) {
                deleted.insert(path.clone());
            }
        }
    }
    deleted
}

fn is_unseen(path: &[u8], walked: &Walked) -> bool {
    walked.unseen.iter().any(|folder| is_within(path, folder))
}

fn is_within(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || folder.is_empty(),
        None => false,
    }
}

/// Brings the empty directories up to date: all inside what was looked at, and those around it
/// that lost their last file or got their first.
fn update_directories(
    after: &mut Entries,
    walked: &Walked,
    draft: &Draft,
    walker: &mut Walker<'_>,
) -> SandboxResult<()> {
    let looked_at = |path: &Vec<u8>| {
        let in_scope = walked.scopes.iter().any(|scope| is_within(path, scope));
        in_scope && !is_unseen(path, walked)
    };
    after.empty_directories.retain(|path| !looked_at(path));
    after
        .empty_directories
        .extend(walked.empty_directories.iter().cloned());
    let filtered = draft
        .omitted
        .iter()
        .filter(|(_, why)| *why == OmittedWhy::Filtered);
    let filtered = filtered.map(|(path, _)| path);
    let around: BTreeSet<&[u8]> = walked
        .scopes
        .iter()
        .chain(filtered)
        .flat_map(|path| folders_around(path))
        .collect();
    for folder in around {
        let has_files = after.inside(folder).next().is_some();
        if !has_files && walker.is_leaf(folder)? {
            after.empty_directories.insert(folder.to_vec());
        } else {
            after.empty_directories.remove(folder);
        }
    }
    Ok(())
}

/// The folders a path lies in, the root apart.
fn folders_around(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

fn record(
    sandbox: &LocalSandbox,
    previous: &TreeId,
    before: &Entries,
    after: &Entries,
    draft: &Draft,
) -> SandboxResult<TreeId> {
    let nothing = "0".repeat(sandbox.made.object_format.id_length());
    let mut lines = Vec::new();
    for path in &draft.deleted {
        lines.extend_from_slice(format!("0 {nothing}\t").as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    for (path, entry) in &draft.read {
        let known = before.files.get(path);
        if known.is_some_and(|known| (known.mode, &known.object) == (entry.mode, &entry.object)) {
            continue;
        }
        lines.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.object).as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    let files = match lines.is_empty() {
        true => previous.files().to_owned(),
        false => sandbox.store.change_tree(previous.files(), &lines)?,
    };
    let list = match after.empty_directories == before.empty_directories {
        true => previous.empty_directories().map(str::to_owned),
        false => store_list(sandbox, &after.empty_directories)?,
    };
    Ok(TreeId::new(&files, list.as_deref())?)
}

/// Stores the list of empty directories; an empty list is none.
pub(crate) fn store_list(
    sandbox: &LocalSandbox,
    directories: &BTreeSet<Vec<u8>>,
) -> SandboxResult<Option<String>> {
    if directories.is_empty() {
        return Ok(None);
    }
    let mut list = Vec::new();
    for path in directories {
        list.extend_from_slice(path);
        list.push(0);
    }
    let call = sandbox
        .store
        .call(["hash-object", "-w", "--stdin", "--no-filters"]);
    Ok(Some(text(&call.run_with(&list)?)))
}
