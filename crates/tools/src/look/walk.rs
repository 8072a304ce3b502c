//! Goes through a folder by open folders: no link is followed, `.git` is never seen, and what is
//! ignored is passed over.
//!
//! Whoever names an ignored folder wants to see what is in it; there no rules hold.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cleveragents_beneath::ignore_rules::{Case, Entry, Rules, rules_in};
use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::{FileStat, names_in, open_folder, reopen};
use cleveragents_beneath::refused_names::is_dot_git;
use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::tools::{Call, ToolFailure};
use rustix::fs::{AtFlags, FileType, statat};

use crate::builtin::{failed, stopped};
use crate::folders::inside::MOST_DEPTH;
use crate::place::{Somewhere, Tree};

/// Something on the way.
#[derive(Debug)]
pub(super) struct Met<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a [u8],
    pub(super) path: ResourcePath,
    pub(super) stat: FileStat,
    /// 1 for what is in the folder the walk began at.
    pub(super) depth: usize,
}

/// What is done with all that a walk meets.
pub(super) trait Visitor {
    fn meet(&mut self, met: Met<'_>) -> Result<(), ToolFailure>;

    /// Whether the walk goes into folders at this depth.
    fn goes_into(&self, depth: usize) -> bool;

    /// A folder cannot be looked into.
    fn unreadable(&mut self, path: ResourcePath);
}

/// Walks through the folder at `start`.
pub(super) fn walk(
    call: &Call<'_>,
    tree: &Tree,
    start: &Somewhere,
    visitor: &mut dyn Visitor,
) -> Result<(), ToolFailure> {
    let root = reopen(tree.root());
    let folder = root.map_err(|error| failed(format!("the sandbox cannot be opened: {error}")))?;
    let way: &[u8] = match start {
        Somewhere::Root => b"",
        Somewhere::Spot(spot) => spot.path.as_bytes(),
    };
    let nothing = Rules::everywhere(b"", Case::Sensitive);
    let mut walker = Walker { call, visitor };
    walker.begin(&folder, b"", way, &nothing)
}

struct Walker<'a> {
    call: &'a Call<'a>,
    visitor: &'a mut dyn Visitor,
}

/// An open folder on the way.
#[derive(Clone, Copy)]
struct Place<'a> {
    folder: BorrowedFd<'a>,
    path: &'a [u8],
    rules: &'a Rules<'a>,
    depth: usize,
}

impl Walker<'_> {
    /// Goes on towards the folder at `way`, gathering rules, and walks through it.
    fn begin(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        way: &[u8],
        around: &Rules<'_>,
    ) -> Result<(), ToolFailure> {
        let content = rules_in(folder.as_fd());
        let rules = around.inside(path, &content);
        let place = Place {
            folder: folder.as_fd(),
            path,
            rules: &rules,
            depth: 1,
        };
        if path.len() == way.len() {
            return self.folder(place);
        }
        let rest = way[path.len()..]
            .strip_prefix(b"/")
            .unwrap_or(&way[path.len()..]);
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
        let here = join(path, name);
        let inner = open_folder(folder.as_fd(), name).map_err(|error| {
            let here = String::from_utf8_lossy(&here).escape_debug().to_string();
            failed(format!("{here} cannot be looked into: {error}"))
        })?;
        if !rules.ignore(&here, Entry::Directory) {
            return self.begin(&inner, &here, way, &rules);
        }
        let nothing = Rules::everywhere(b"", Case::Sensitive);
        self.begin(&inner, &here, way, &nothing)
    }

    fn folder(&mut self, place: Place<'_>) -> Result<(), ToolFailure> {
        let names = match names_in(place.folder) {
            Ok(names) => names,
            Err(_) => {
                if let Ok(path) = ResourcePath::from_bytes(place.path) {
                    self.visitor.unreadable(path);
                }
                return Ok(());
            }
        };
        for name in names {
            self.call.stop.check().map_err(stopped)?;
            self.entry(place, &name)?;
        }
        Ok(())
    }

    fn entry(&mut self, place: Place<'_>, name: &[u8]) -> Result<(), ToolFailure> {
        if is_dot_git(name) {
            return Ok(());
        }
        // What is gone by now was not met.
        let Ok(stat) = statat(place.folder, path_of(name), AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        let stat = FileStat::from(&stat);
        let is_folder = stat.kind() == FileType::Directory;
        let here = join(place.path, name);
        let entry = if is_folder {
            Entry::Directory
        } else {
            Entry::Other
        };
        if place.rules.ignore(&here, entry) {
            return Ok(());
        }
        let Ok(path) = ResourcePath::from_bytes(here.clone()) else {
            return Ok(());
        };
        let depth = place.depth;
        self.visitor.meet(Met {
            folder: place.folder,
            name,
            path: path.clone(),
            stat,
            depth,
        })?;
        if !is_folder || !self.visitor.goes_into(depth) {
            return Ok(());
        }
        match open_folder(place.folder, name) {
            Ok(folder) if depth < MOST_DEPTH => {
                let content = rules_in(folder.as_fd());
                let rules = place.rules.inside(&here, &content);
                self.folder(Place {
                    folder: folder.as_fd(),
                    path: &here,
                    rules: &rules,
                    depth: depth + 1,
                })
            }
            _ => {
                self.visitor.unreadable(path);
                Ok(())
            }
        }
    }
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => name.to_vec(),
        false => [path, name].join(&b'/'),
    }
}
