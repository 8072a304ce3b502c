//! Random edit scripts of an agent, and which parts of a tree a capture keeps.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::ResourcePath;
use proptest::prelude::*;

use crate::environment::{SandboxTestWorld, TreeListing, listing, os, set_mode, write};

/// One edit of an agent. An edit that is not possible is skipped.
#[derive(Debug, Clone)]
pub(crate) enum AgentEdit {
    Write(usize, Vec<u8>),
    Remove(usize),
    Rename(usize, usize),
    Mode(usize, u32),
    Link(usize, Vec<u8>),
    Folder(usize),
    Repository(usize),
    Fifo(usize),
}

/// Few names, so that files, folders and links collide. Some have unusual bytes.
pub(crate) const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"a.b",
    b"dir",
    b"dir/a",
    b"dir/b",
    b"dir/sub",
    b"dir/sub/a",
    b"dir/sub/deep/a",
    b"dir.x/a",
    b"\xff\xfe",
    b"new\nline/\"quoted\" \\",
    b"-dash",
    " spaces \u{e9}\t".as_bytes(),
];

pub(crate) fn edits() -> impl Strategy<Value = Vec<AgentEdit>> {
    let name = 0..NAMES.len();
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        "[ab\r\n]{0,12}".prop_map(String::into_bytes),
    ];
    let target = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"/etc".to_vec()),
        Just(b"\xff".to_vec())
    ];
    let edit = prop_oneof![
        6 => (name.clone(), content).prop_map(|(at, content)| AgentEdit::Write(at, content)),
        3 => name.clone().prop_map(AgentEdit::Remove),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| AgentEdit::Rename(from, to)),
        2 => (name.clone(), prop_oneof![Just(0o755), Just(0o644)]).prop_map(|(at, mode)| AgentEdit::Mode(at, mode)),
        2 => (name.clone(), target).prop_map(|(at, target)| AgentEdit::Link(at, target)),
        2 => name.clone().prop_map(AgentEdit::Folder),
        1 => name.clone().prop_map(AgentEdit::Repository),
        1 => name.prop_map(AgentEdit::Fifo),
    ];
    prop::collection::vec(edit, 1..12)
}

/// Applies an edit like a shell would, and returns the touched paths.
pub(crate) fn apply(world: &SandboxTestWorld, tree: &Path, edit: &AgentEdit) -> Vec<ResourcePath> {
    let at = |name: usize| tree.join(os(NAMES[name]));
    let touched = |name: usize| ResourcePath::from_bytes(NAMES[name]).unwrap();
    let is_real_folder = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    // Never through a link: its target is not part of the tree.
    let reachable = |name: usize| {
        at(name)
            .ancestors()
            .skip(1)
            .take_while(|it| *it != tree)
            .all(|it| is_real_folder(it) || it.symlink_metadata().is_err())
    };
    match edit {
        AgentEdit::Write(name, content) if reachable(*name) && !is_real_folder(&at(*name)) => {
            let _ = fs::remove_file(at(*name));
            write(&at(*name), content);
            vec![touched(*name)]
        }
        AgentEdit::Remove(name) if reachable(*name) => {
            let _ = fs::remove_file(at(*name)).or_else(|_| fs::remove_dir_all(at(*name)));
            vec![touched(*name)]
        }
        AgentEdit::Rename(from, to) if reachable(*from) && reachable(*to) => {
            let _ = fs::rename(at(*from), at(*to));
            vec![touched(*from), touched(*to)]
        }
        AgentEdit::Mode(name, mode)
            if reachable(*name) && at(*name).symlink_metadata().is_ok_and(|it| it.is_file()) =>
        {
            set_mode(&at(*name), *mode);
            vec![touched(*name)]
        }
        AgentEdit::Link(name, target) if reachable(*name) => {
            let parent = at(*name);
            fs::create_dir_all(parent.parent().unwrap()).unwrap();
            let _ = std::os::unix::fs::symlink(os(target), at(*name));
            vec![touched(*name)]
        }
        AgentEdit::Folder(name) if reachable(*name) => {
            let _ = fs::create_dir_all(at(*name));
            vec![touched(*name)]
        }
        AgentEdit::Repository(name) if reachable(*name) && is_real_folder(&at(*name)) => {
            write(&at(*name).join(".git/config"), b"[core]\n");
            vec![touched(*name)]
        }
        AgentEdit::Fifo(name) if reachable(*name) && at(*name).parent().unwrap().is_dir() => {
            world.command(tree, "mkfifo", &[at(*name).to_str().unwrap_or("fifo")]);
            vec![touched(*name), ResourcePath::from_bytes("fifo").unwrap()]
        }
        _ => Vec::new(),
    }
}

/// Returns what a capture keeps: no nested repositories, no special files.
pub(crate) fn captured_listing(tree: &Path) -> TreeListing {
    let mut found = listing(tree);
    let nested = |path: &[u8]| path.split(|byte| *byte == b'/').any(|part| part == b".git");
    found.retain(|path, (kind, _)| *kind != 's' && !nested(path));
    found
}

/// Returns repositories and special files in a folder.
pub(crate) fn find_uncaptured(tree: &Path) -> Vec<PathBuf> {
    let all = listing(tree);
    let away = all
        .iter()
        .filter(|(path, (kind, _))| *kind == 's' || path.ends_with(b"/.git"));
    away.map(|(path, _)| tree.join(os(path))).collect()
}
