//! Gives folders of a sandbox to the user its commands run as. Needed only as root.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use cleveragents_safe_fs::file_access::{names_in, open_folder, open_root};
use rustix::fs::{AtFlags, CWD, FileType, chownat, fchown, statat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid};

use crate::account::SandboxAccount;
use crate::files::path_from_bytes;

/// Gives a folder with its content to `account`, or to this process's user if `None`. A folder that
/// already belongs to that user is skipped: a folder is given after its content, so it is complete.
pub(crate) fn ensure_owner(folder: &Path, account: Option<SandboxAccount>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = OwnerIds::for_account(account);
    if folder.symlink_metadata()?.uid() == owner.user.as_raw() {
        return Ok(());
    }
    chown_tree(folder, account)
}

/// Changes the owner of a folder and its content to `account`, for any current owner.
pub(crate) fn chown_tree(folder: &Path, account: Option<SandboxAccount>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = OwnerIds::for_account(account);
    let root = open_root(folder)?;
    owner.chown_contents(root.as_fd())?;
    fchown(&root, Some(owner.user), Some(owner.group))?;
    Ok(())
}

/// Gives this one file, link or folder to `account`.
pub(crate) fn chown_one(path: &Path, account: Option<SandboxAccount>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = OwnerIds::for_account(account);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    chownat(CWD, path, Some(owner.user), Some(owner.group), flags)?;
    Ok(())
}

/// Lets every user read a folder and its content, as far as its parents allow.
pub(crate) fn make_readable(folder: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let found = folder.symlink_metadata()?;
    if found.is_symlink() {
        return Ok(());
    }
    let added = if found.is_dir() { 0o055 } else { 0o044 };
    let mode = found.permissions().mode() & 0o777;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode | added))?;
    if found.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            make_readable(&entry?.path())?;
        }
    }
    Ok(())
}

struct OwnerIds {
    user: Uid,
    group: Gid,
}

impl OwnerIds {
    fn for_account(account: Option<SandboxAccount>) -> Self {
        match account {
            Some(account) => Self {
                user: account.uid(),
                group: account.gid(),
            },
            None => Self {
                user: geteuid(),
                group: getegid(),
            },
        }
    }

    /// Walks by open folders, so that no link can lead elsewhere.
    fn chown_contents(&self, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        for name in names_in(folder)? {
            let found = statat(folder, path_from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                self.chown_contents(open_folder(folder, &name)?.as_fd())?;
            }
            if found.st_uid != self.user.as_raw() || found.st_gid != self.group.as_raw() {
                let (user, group) = (Some(self.user), Some(self.group));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                chownat(folder, path_from_bytes(&name), user, group, flags)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chown_covers_the_tree_and_follows_no_link() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        let outside = folder.path().join("outside");
        for file in [&tree.join("a/b/file"), &outside] {
            std::fs::File::create(file).unwrap();
        }
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        let account = SandboxAccount::for_sandbox(folder.path());
        let expected = account.map_or(0, |it| it.uid().as_raw());
        ensure_owner(&tree, account).unwrap();
        for name in ["", "a", "a/b", "a/b/file", "link"] {
            let found = tree.join(name).symlink_metadata().unwrap();
            assert_eq!(found.uid(), expected, "{name}");
        }
        assert_eq!(outside.metadata().unwrap().uid(), 0);
        ensure_owner(&tree, None).unwrap();
        assert_eq!(tree.join("a/b/file").metadata().unwrap().uid(), 0);
    }
}
