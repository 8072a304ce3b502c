//! Walks a folder by open folders: follows no link, never enters `.git`, and skips ignored paths.
//!
//! If the call names an ignored folder, the walk shows its content and applies no rules there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_safe_fs::file_access::{FileStat, names_in, open_folder, reopen};
use cleveragents_safe_fs::ignore_rules::{IgnoreEntryKind, IgnoreRules, NameCase, read_gitignore};
use cleveragents_safe_fs::path_from_bytes;
use cleveragents_safe_fs::refused_names::is_dot_git;
use rustix::fs::{AtFlags, FileType, statat};

use crate::builtin::{failed, stopped};
use crate::folders::inventory::MAX_DEPTH;
use crate::paths::{SandboxTree, TreeLocation};

/// An entry that the walk visits.
#[derive(Debug)]
pub(super) struct WalkEntry<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a [u8],
    pub(super) path: ResourcePath,
    pub(super) stat: FileStat,
    /// 1 for entries of the folder where the walk starts.
    pub(super) depth: usize,
}

/// Receives everything that a walk visits.
pub(super) trait Visitor {
    fn visit(&mut self, entry: WalkEntry<'_>) -> Result<(), ToolFailure>;

    /// Returns whether the walk enters folders at this depth.
    fn should_descend(&self, depth: usize) -> bool;

    /// Called for a folder that cannot be read.
    fn visit_unreadable(&mut self, path: ResourcePath);
}

/// Walks the folder at `start`.
pub(super) fn walk(
    call: &ToolInvocation<'_>,
    tree: &SandboxTree,
    start: &TreeLocation,
    visitor: &mut dyn Visitor,
) -> Result<(), ToolFailure> {
    let root = reopen(tree.root());
    let folder = root.map_err(|error| failed(format!("the sandbox cannot be opened: {error}")))?;
    let start_path: &[u8] = match start {
        TreeLocation::Root => b"",
        TreeLocation::Path(target) => target.path.as_bytes(),
    };
    let no_rules = IgnoreRules::global(b"", NameCase::Sensitive);
    let mut walker = FolderWalker { call, visitor };
    walker.descend_to_start(&folder, b"", start_path, &no_rules)
}

struct FolderWalker<'a> {
    call: &'a ToolInvocation<'a>,
    visitor: &'a mut dyn Visitor,
}

#[derive(Clone, Copy)]
struct OpenWalkFolder<'a> {
    folder: BorrowedFd<'a>,
    path: &'a [u8],
    rules: &'a IgnoreRules<'a>,
    depth: usize,
}

impl FolderWalker<'_> {
    /// Descends to the folder at `start_path`, collecting ignore rules, and walks it.
    fn descend_to_start(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        start_path: &[u8],
        around: &IgnoreRules<'_>,
    ) -> Result<(), ToolFailure> {
        let content = read_gitignore(folder.as_fd());
        let rules = around.for_folder(path, &content);
        let current = OpenWalkFolder {
            folder: folder.as_fd(),
            path,
            rules: &rules,
            depth: 1,
        };
        if path.len() == start_path.len() {
            return self.walk_folder(current);
        }
        let rest = start_path[path.len()..]
            .strip_prefix(b"/")
            .unwrap_or(&start_path[path.len()..]);
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
        let here = join(path, name);
        let inner = open_folder(folder.as_fd(), name).map_err(|error| {
            let here = String::from_utf8_lossy(&here).escape_debug().to_string();
            failed(format!("{here} cannot be read: {error}"))
        })?;
        if !rules.is_ignored(&here, IgnoreEntryKind::Directory) {
            return self.descend_to_start(&inner, &here, start_path, &rules);
        }
        let no_rules = IgnoreRules::global(b"", NameCase::Sensitive);
        self.descend_to_start(&inner, &here, start_path, &no_rules)
    }

    fn walk_folder(&mut self, current: OpenWalkFolder<'_>) -> Result<(), ToolFailure> {
        let names = match names_in(current.folder) {
            Ok(names) => names,
            Err(_) => {
                if let Ok(path) = ResourcePath::from_bytes(current.path) {
                    self.visitor.visit_unreadable(path);
                }
                return Ok(());
            }
        };
        for name in names {
            self.call.stop.check().map_err(stopped)?;
            self.visit_entry(current, &name)?;
        }
        Ok(())
    }

    fn visit_entry(&mut self, current: OpenWalkFolder<'_>, name: &[u8]) -> Result<(), ToolFailure> {
        if is_dot_git(name) {
            return Ok(());
        }
        // The entry was removed since it was listed.
        let Ok(stat) = statat(
            current.folder,
            path_from_bytes(name),
            AtFlags::SYMLINK_NOFOLLOW,
        ) else {
            return Ok(());
        };
        let stat = FileStat::from(&stat);
        let is_folder = stat.kind() == FileType::Directory;
        let here = join(current.path, name);
        let entry = if is_folder {
            IgnoreEntryKind::Directory
        } else {
            IgnoreEntryKind::Other
        };
        if current.rules.is_ignored(&here, entry) {
            return Ok(());
        }
        let Ok(path) = ResourcePath::from_bytes(here.clone()) else {
            return Ok(());
        };
        let depth = current.depth;
        self.visitor.visit(WalkEntry {
            folder: current.folder,
            name,
            path: path.clone(),
            stat,
            depth,
        })?;
        if !is_folder || !self.visitor.should_descend(depth) {
            return Ok(());
        }
        match open_folder(current.folder, name) {
            Ok(folder) if depth < MAX_DEPTH => {
                let content = read_gitignore(folder.as_fd());
                let rules = current.rules.for_folder(&here, &content);
                self.walk_folder(OpenWalkFolder {
                    folder: folder.as_fd(),
                    path: &here,
                    rules: &rules,
                    depth: depth + 1,
                })
            }
            _ => {
                self.visitor.visit_unreadable(path);
                Ok(())
            }
        }
    }
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        name.to_vec()
    } else {
        [path, name].join(&b'/')
    }
}
