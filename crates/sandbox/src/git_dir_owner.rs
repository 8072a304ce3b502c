//! Whether a folder's git directory really belongs to it.
//!
//! A `.git` file, a link in its place or a `commondir` can name any repository on the machine, and a
//! folder may come from somebody else. Objects of that repository would be readable in sandboxes,
//! and Apply would move its branches. So the other side has to name the folder too: a linked working
//! tree by git's own record of it, all else by `core.worktree`. And `core.worktree` of a folder's own
//! `.git` cannot make another folder its working tree.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_engine::ports::sandbox::{Checkout, SandboxError, SandboxResult};

use crate::files::{path_of, read_if_there};
use crate::git_files;
use crate::repository::Found;

/// Fails if the repository that `path` leads to does not know the folder it was found by.
pub(crate) fn check(found: &Found, path: &Path) -> SandboxResult<()> {
    let Checkout::At(top) = &found.checkout else {
        return match real(&found.git_dir) == real(&found.common_dir) {
            true => Ok(()),
            false => Err(refused(found, &found.git_dir)),
        };
    };
    let around = path.ancestors();
    let around = around.filter(|it| it.join(".git").symlink_metadata().is_ok());
    let is_around = around.map(real).next() == Some(real(top));
    // Git lists the main working tree of a submodule by its git directory.
    let is_git_dir = real(path) == real(&found.git_dir) && leads_to(top, &found.git_dir);
    if !is_around && !is_git_dir {
        return Err(SandboxError::Refused {
            path: path.to_owned(),
            reason: format!(
                "its working tree is {} by `core.worktree`: work there instead",
                top.display()
            ),
        });
    }
    let is_known = match found.git_dir == found.common_dir {
        true => is_own_folder(found, top) || is_named_by_setting(found, top),
        false => is_recorded(found, top),
    };
    match is_known {
        true => Ok(()),
        false => Err(refused(found, top)),
    }
}

/// A `.git` that is a folder, and not a link to one.
fn is_own_folder(found: &Found, top: &Path) -> bool {
    let own = top.join(".git");
    let is_folder = own.symlink_metadata().is_ok_and(|it| it.is_dir());
    is_folder && real(&own) == real(&found.git_dir)
}

/// Whether the `.git` of this folder, a link or a file, names the git directory.
fn leads_to(top: &Path, git_dir: &Path) -> bool {
    if real(&top.join(".git")).is_some_and(|it| Some(it) == real(git_dir)) {
        return true;
    }
    let Ok(Some(content)) = git_files::read(top, ".git") else {
        return false;
    };
    let named = content.strip_prefix(b"gitdir: ");
    let named = named.and_then(|it| real(&top.join(path_of(it.trim_ascii_end()))));
    named.is_some() && named == real(git_dir)
}

/// `core.worktree` of a submodule, or of a repository that is kept elsewhere.
fn is_named_by_setting(found: &Found, top: &Path) -> bool {
    let named = found.settings.worktree.as_ref();
    let named = named.and_then(|path| real(&found.git_dir.join(path)));
    named.is_some() && named == real(top)
}

/// The record that git keeps of a linked working tree.
fn is_recorded(found: &Found, top: &Path) -> bool {
    let folder = found.git_dir.parent().and_then(real);
    if folder.is_none() || folder != real(&found.common_dir.join("worktrees")) {
        return false;
    }
    let Ok(Some(record)) = read_if_there(&found.git_dir.join("gitdir")) else {
        return false;
    };
    let recorded = found.git_dir.join(path_of(record.trim_ascii_end()));
    let is_git_file = recorded
        .file_name()
        .is_some_and(|it| it.as_bytes() == b".git");
    let folder = recorded.parent().and_then(real);
    is_git_file && folder.is_some() && folder == real(top)
}

fn real(path: &Path) -> Option<std::path::PathBuf> {
    fs::canonicalize(path).ok()
}

fn refused(found: &Found, folder: &Path) -> SandboxError {
    let git_dir = found.git_dir.display();
    SandboxError::Refused {
        path: folder.to_owned(),
        reason: format!(
            "its git directory is {git_dir}, which does not name this folder. For a linked working \
             tree run `git worktree repair` in its repository; else, if the folder is yours, run \
             `git --git-dir={git_dir} config core.worktree {}`",
            folder.display()
        ),
    }
}
