//! The git trees of a captured tree. A folder with changes gets a new git tree; all others keep the
//! known one.

use std::collections::BTreeSet;
use std::ops::Bound;

use cleveragents_ports::sandbox::SandboxResult;

use crate::entries::{FOLDER, TreeEntries, parent_folders};
use crate::new_objects::NewObjects;
use crate::object_id::{ObjectId, ObjectKind};

/// Returns the folders, including the root, that need a new tree when these paths change.
pub(crate) fn changed_folders<'a>(
    paths: impl IntoIterator<Item = &'a Vec<u8>>,
) -> BTreeSet<Vec<u8>> {
    let mut folders: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new()]);
    for path in paths {
        folders.extend(parent_folders(path).map(<[u8]>::to_vec));
    }
    folders
}

/// Writes the trees of these folders and of those whose tree is unknown. Returns the tree of the
/// root.
pub(crate) fn write(
    entries: &mut TreeEntries,
    folders: &BTreeSet<Vec<u8>>,
    objects: &mut NewObjects,
) -> SandboxResult<ObjectId> {
    for folder in folders {
        entries.folders.remove(folder);
    }
    // Reverse order, because a folder's tree needs the trees of its subfolders.
    for folder in folders.iter().rev() {
        write_folder(entries, folder, objects)?;
    }
    match entries.folders.get(&b""[..]) {
        Some(root) => Ok(*root),
        None => objects.put(ObjectKind::Tree, b""),
    }
}

/// Writes the tree of one folder. An empty folder gets none, because git has no empty folders.
fn write_folder(
    entries: &mut TreeEntries,
    folder: &[u8],
    objects: &mut NewObjects,
) -> SandboxResult<()> {
    let mut content = Vec::new();
    let mut at = Vec::new();
    while let Some(child) = next_child(entries, folder, &at) {
        let (mode, name, object) = match child {
            TreeChild::File(mode, path, object) => (mode, path, object),
            TreeChild::Folder(path) => {
                if !entries.folders.contains_key(&path) {
                    write_folder(entries, &path, objects)?;
                }
                let Some(object) = entries.folders.get(&path).copied() else {
                    return Ok(());
                };
                (FOLDER, path, object)
            }
        };
        let start = folder.len() + usize::from(!folder.is_empty());
        content.extend_from_slice(format!("{mode:o} ").as_bytes());
        content.extend_from_slice(&name[start..]);
        content.push(0);
        content.extend_from_slice(object.as_bytes());
        at = name;
        // Skip past the content of a folder; no other path sorts in between.
        at.push(match mode {
            FOLDER => b'/' + 1,
            _ => 0,
        });
    }
    if !content.is_empty() {
        let object = objects.put(ObjectKind::Tree, &content)?;
        entries.folders.insert(folder.to_vec(), object);
    }
    Ok(())
}

/// A direct child of a folder, with its whole path.
enum TreeChild {
    File(u32, Vec<u8>, ObjectId),
    Folder(Vec<u8>),
}

/// Returns the first child at or after `at`. The order of paths is git's order of children.
fn next_child(entries: &TreeEntries, folder: &[u8], at: &[u8]) -> Option<TreeChild> {
    let mut prefix = folder.to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    let from = if at.is_empty() { &prefix } else { at };
    let from = (Bound::Included(from), Bound::Unbounded);
    let (path, entry) = entries.files.range::<[u8], _>(from).next()?;
    let rest = path.strip_prefix(prefix.as_slice())?;
    match rest.iter().position(|byte| *byte == b'/') {
        None => Some(TreeChild::File(entry.mode, path.clone(), entry.object)),
        Some(length) => Some(TreeChild::Folder(path[..prefix.len() + length].to_vec())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use cleveragents_ports::sandbox::ObjectFormat;
    use cleveragents_ports::stop::StopSignal;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, FileFailurePersistence};

    use super::*;
    use crate::entries::{EXECUTABLE, FILE, GITLINK, LINK, TreeEntry};
    use crate::git::{Git, GitSettings};
    use crate::private_dir::PrivateGitDir;
    use crate::store::{ObjectReader, PrivateStore, push_tree_line};

    /// Names that sort before, between and after each other's contents.
    const PATHS: [&str; 14] = [
        "a", "a/b", "a/b/c", "a/c", "a-b", "a.b/c", "a0", "a0/x/y/z", "b", "b/a", "b/a.x", "b/a/x",
        "\u{e9}", "z/-",
    ];

    /// Creates an empty store in the test's folder.
    pub(crate) fn store(folder: &std::path::Path, format: ObjectFormat) -> PrivateStore {
        let settings = GitSettings {
            program: "git".into(),
            search_path: "/usr/local/bin:/usr/bin:/bin".into(),
            home: folder.to_owned(),
            timeout: Duration::from_secs(300),
        };
        let store = PrivateStore {
            git: Git::new(settings, folder.join("scratch")),
            dir: PrivateGitDir::new(folder.join("git")),
            format,
            shaping: Vec::new(),
            attributes: String::new(),
            reader: ObjectReader::default(),
            stop: StopSignal::new(),
        };
        store.init().unwrap();
        store
    }

    /// Returns whether a file can exist at this path beside the others.
    fn has_room(entries: &TreeEntries, path: &[u8]) -> bool {
        let taken = parent_folders(path).any(|folder| entries.files.contains_key(folder));
        !taken && entries.entries_in(path).next().is_none()
    }

    /// One step: paths that are removed, and paths that are added with a mode and a content.
    type TreeStep = Vec<(usize, Option<(u32, u8)>)>;

    fn steps() -> impl Strategy<Value = Vec<TreeStep>> {
        let mode = prop_oneof![Just(FILE), Just(EXECUTABLE), Just(LINK), Just(GITLINK)];
        let entry = prop::option::weighted(0.7, (mode, 0_u8..4));
        let step = prop::collection::vec((0..PATHS.len(), entry), 1..9);
        prop::collection::vec(step, 1..4)
    }

    fn check(format: ObjectFormat, steps: &[TreeStep]) {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), format);
        let nothing = "0".repeat(format.id_length());
        let mut entries = TreeEntries::default();
        let mut gits = store.empty_tree().unwrap();
        for step in steps {
            let mut objects = store.new_objects();
            let mut lines = Vec::new();
            let mut changed = Vec::new();
            for (path, entry) in step {
                let path = PATHS[*path].as_bytes().to_vec();
                if entries.files.remove(&path).is_some() {
                    push_tree_line(&mut lines, 0, &nothing, &path);
                }
                if let Some((mode, content)) = entry
                    && has_room(&entries, &path)
                {
                    let object = objects.put(ObjectKind::Blob, &[*content]).unwrap();
                    push_tree_line(&mut lines, *mode, &object.to_string(), &path);
                    let entry = TreeEntry {
                        mode: *mode,
                        object,
                        stat: None,
                        content: None,
                    };
                    entries.files.insert(path.clone(), entry);
                }
                changed.push(path);
            }
            let folders = changed_folders(&changed);
            let ours = write(&mut entries, &folders, &mut objects).unwrap();
            objects.persist().unwrap();
            gits = store.change_tree(&gits, &lines).unwrap();
            assert_eq!(ours.to_string(), gits);
            // The known trees of folders are exactly those that exist.
            let mut fresh = entries.clone();
            fresh.folders.clear();
            let mut objects = store.new_objects();
            assert_eq!(
                write(&mut fresh, &changed_folders([]), &mut objects),
                Ok(ours)
            );
            assert_eq!(fresh, entries);
        }
        store.call(["fsck", "--strict", &gits]).run().unwrap();
    }

    proptest! {
        #![proptest_config(Config {
            cases: 24,
            failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
            ..Config::default()
        })]

        #[test]
        fn trees_match_git(steps in steps()) {
            check(ObjectFormat::Sha1, &steps);
            check(ObjectFormat::Sha256, &steps);
        }
    }
}
