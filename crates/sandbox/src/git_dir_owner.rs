//! Checks that a git directory really belongs to the folder it was found by.
//!
//! A `.git` file, a link in its place or a `commondir` can name any repository on the machine, and
//! the folder may come from an untrusted source. Sandboxes could then read objects of that repository, and
//! Apply would move its branches. So the repository must name the folder too: a linked working tree
//! by git's own record of it, any other by `core.worktree`. And the `core.worktree` of a folder's
//! own `.git` cannot make another folder its working tree.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_ports::sandbox::{Checkout, SandboxError, SandboxResult};

use crate::files::{path_from_bytes, read_if_exists};
use crate::git_files;
use crate::repository::RepositoryInfo;

/// Fails if the repository found by `path` does not name that folder.
pub(crate) fn check(found: &RepositoryInfo, path: &Path) -> SandboxResult<()> {
    let Checkout::At(top) = &found.checkout else {
        return if canonical_path(&found.git_dir) == canonical_path(&found.common_dir) {
            Ok(())
        } else {
            Err(refusal_error(found, &found.git_dir))
        };
    };
    let around = path.ancestors();
    let around = around.filter(|it| it.join(".git").symlink_metadata().is_ok());
    let is_around = around.map(canonical_path).next() == Some(canonical_path(top));
    // Git lists the main working tree of a submodule by its git directory.
    let is_git_dir =
        canonical_path(path) == canonical_path(&found.git_dir) && leads_to(top, &found.git_dir);
    if !is_around && !is_git_dir {
        return Err(SandboxError::Refused {
            path: path.to_owned(),
            reason: format!(
                "its working tree is {} by `core.worktree`: work there instead",
                top.display()
            ),
        });
    }
    let is_known = if found.git_dir == found.common_dir {
        is_own_folder(found, top) || is_named_by_setting(found, top)
    } else {
        is_recorded(found, top)
    };
    if is_known {
        Ok(())
    } else {
        Err(refusal_error(found, top))
    }
}

/// Returns whether `.git` is a folder and not a link to one.
fn is_own_folder(found: &RepositoryInfo, top: &Path) -> bool {
    let own = top.join(".git");
    let is_folder = own.symlink_metadata().is_ok_and(|it| it.is_dir());
    is_folder && canonical_path(&own) == canonical_path(&found.git_dir)
}

/// Returns whether the `.git` of this folder, a link or a file, names the git directory.
fn leads_to(top: &Path, git_dir: &Path) -> bool {
    if canonical_path(&top.join(".git")).is_some_and(|it| Some(it) == canonical_path(git_dir)) {
        return true;
    }
    let Ok(Some(content)) = git_files::read(top, ".git") else {
        return false;
    };
    let named = content.strip_prefix(b"gitdir: ");
    let named =
        named.and_then(|it| canonical_path(&top.join(path_from_bytes(it.trim_ascii_end()))));
    named.is_some() && named == canonical_path(git_dir)
}

/// Checks `core.worktree` of a submodule, or of a repository that is kept elsewhere.
fn is_named_by_setting(found: &RepositoryInfo, top: &Path) -> bool {
    let named = found.settings.worktree.as_ref();
    let named = named.and_then(|path| canonical_path(&found.git_dir.join(path)));
    named.is_some() && named == canonical_path(top)
}

/// Checks the record that git keeps of a linked working tree.
fn is_recorded(found: &RepositoryInfo, top: &Path) -> bool {
    let folder = found.git_dir.parent().and_then(canonical_path);
    if folder.is_none() || folder != canonical_path(&found.common_dir.join("worktrees")) {
        return false;
    }
    let Ok(Some(record)) = read_if_exists(&found.git_dir.join("gitdir")) else {
        return false;
    };
    let recorded = found.git_dir.join(path_from_bytes(record.trim_ascii_end()));
    let is_git_file = recorded
        .file_name()
        .is_some_and(|it| it.as_bytes() == b".git");
    let folder = recorded.parent().and_then(canonical_path);
    is_git_file && folder.is_some() && folder == canonical_path(top)
}

fn canonical_path(path: &Path) -> Option<std::path::PathBuf> {
    fs::canonicalize(path).ok()
}

fn refusal_error(found: &RepositoryInfo, folder: &Path) -> SandboxError {
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
