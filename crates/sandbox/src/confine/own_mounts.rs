//! Private mounts of a command, used if root confines it by Landlock.
//!
//! The command runs as a user who can enter neither root's home nor our data directory. For this
//! process and its children, such closed folders are replaced by empty ones that contain only what
//! the command may access.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    mount_remount, move_mount, open_tree,
};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities};

use super::grants::{Grant, grants};
use super::policy::AccessRules;

/// Returns whether this process may mount. Root in a container often may not.
pub(super) fn can_mount() -> bool {
    capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Makes the paths granted by `rules` reachable for a user who cannot enter their parents.
pub(super) fn mount_grants(rules: &AccessRules) -> io::Result<()> {
    let closed = closed_folders(grants(rules));
    if closed.is_empty() {
        return Ok(());
    }
    #[expect(
        deprecated,
        reason = "its replacement is unsafe for file descriptors, which stay shared here"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    // Otherwise the mounts below would propagate to the rest of the machine.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    closed
        .iter()
        .try_for_each(|(folder, inside)| replace_folder(folder, inside))
}

/// Groups the grants by the outermost folder that other users cannot enter.
fn closed_folders(grants: Vec<(PathBuf, Grant)>) -> BTreeMap<PathBuf, Vec<(PathBuf, Grant)>> {
    let mut closed: BTreeMap<PathBuf, Vec<(PathBuf, Grant)>> = BTreeMap::new();
    for (path, grant) in grants {
        if grant == Grant::Private {
            continue;
        }
        if let Some(folder) = outermost_closed_folder(&path) {
            closed.entry(folder).or_default().push((path, grant));
        }
    }
    closed
}

fn outermost_closed_folder(path: &Path) -> Option<PathBuf> {
    let mut around: Vec<&Path> = path.ancestors().skip(1).collect();
    around.reverse();
    let is_closed = |folder: &&&Path| {
        let found = folder.metadata();
        found.is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    };
    around
        .iter()
        .find(is_closed)
        .map(|folder| folder.to_path_buf())
}

/// Covers `folder` with an empty folder and mounts the granted paths into it.
fn replace_folder(folder: &Path, inside: &[(PathBuf, Grant)]) -> io::Result<()> {
    // Detached first, because the paths cannot be opened once their folder is covered.
    let mut held: Vec<(&Path, DetachedEntry)> = Vec::new();
    for (path, grant) in inside {
        let is_held = held.iter().any(|(around, _)| path.starts_with(around));
        match grant {
            _ if is_held => {}
            Grant::Link(target) => held.push((path, DetachedEntry::Link(target))),
            _ => held.push((path, DetachedEntry::Mount(detach(path)?))),
        }
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", folder, "tmpfs", flags, c"mode=755,size=1m")?;
    for (path, what) in &held {
        let around = path.parent().unwrap_or(folder);
        fs::create_dir_all(around)?;
        match what {
            DetachedEntry::Link(target) => symlink(target, path)?,
            DetachedEntry::Mount((mounted, is_folder)) => {
                if *is_folder {
                    fs::create_dir_all(path)?;
                } else {
                    File::create(path)?;
                }
                let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                move_mount(mounted, "", CWD, *path, flags)?;
            }
        }
    }
    Ok(mount_remount(folder, flags | MountFlags::RDONLY, c"")?)
}

/// An entry detached from a closed folder before the folder is covered.
enum DetachedEntry<'a> {
    Link(&'a Path),
    /// The detached mount, and whether it is a folder.
    Mount((OwnedFd, bool)),
}

fn detach(path: &Path) -> io::Result<(OwnedFd, bool)> {
    let is_folder = path.is_dir();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok((open_tree(CWD, path, flags)?, is_folder))
}
