//! Gives folders of a sandbox to the user its commands run as. Needed as root only.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use cleveragents_beneath::reach::{names_in, open_folder, open_root};
use rustix::fs::{AtFlags, CWD, FileType, chownat, fchown, statat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid};

use crate::account::Account;
use crate::files::path_of;

/// Gives a folder and all in it to `account`, or to this process's own user if there is none. A
/// folder that belongs to it already is left alone: it is given last, after all in it.
pub(crate) fn ensure(folder: &Path, account: Option<Account>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = Owner::of(account);
    if folder.symlink_metadata()?.uid() == owner.user.as_raw() {
        return Ok(());
    }
    give(folder, account)
}

/// Gives a folder and all in it to `account`, whoever owns the folder itself.
pub(crate) fn give(folder: &Path, account: Option<Account>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = Owner::of(account);
    let root = open_root(folder)?;
    owner.give_contents(root.as_fd())?;
    fchown(&root, Some(owner.user), Some(owner.group))?;
    Ok(())
}

/// Gives this one file, link or folder to `account`.
pub(crate) fn give_one(path: &Path, account: Option<Account>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = Owner::of(account);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    chownat(CWD, path, Some(owner.user), Some(owner.group), flags)?;
    Ok(())
}

/// Lets every user read a folder and all in it, but for what the folders around it forbid.
pub(crate) fn open_for_reading(folder: &Path) -> io::Result<()> {
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
            open_for_reading(&entry?.path())?;
        }
    }
    Ok(())
}

struct Owner {
    user: Uid,
    group: Gid,
}

impl Owner {
    fn of(account: Option<Account>) -> Self {
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

    /// Goes by open folders, so that no link leads elsewhere.
    fn give_contents(&self, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        for name in names_in(folder)? {
            let found = statat(folder, path_of(&name), AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                self.give_contents(open_folder(folder, &name)?.as_fd())?;
            }
            if found.st_uid != self.user.as_raw() || found.st_gid != self.group.as_raw() {
                let (user, group) = (Some(self.user), Some(self.group));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                chownat(folder, path_of(&name), user, group, flags)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_given_whole_and_no_link_is_followed() {
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
        let account = Account::of_sandbox(folder.path());
        let expected = account.map_or(0, |it| it.uid().as_raw());
        ensure(&tree, account).unwrap();
        for name in ["", "a", "a/b", "a/b/file", "link"] {
            let found = tree.join(name).symlink_metadata().unwrap();
            assert_eq!(found.uid(), expected, "{name}");
        }
        assert_eq!(outside.metadata().unwrap().uid(), 0);
        ensure(&tree, None).unwrap();
        assert_eq!(tree.join("a/b/file").metadata().unwrap().uid(), 0);
    }
}
