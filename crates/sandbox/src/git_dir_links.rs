//! Rejects links that lead out of a git directory.
//!
//! Git follows links everywhere in its own directory. In a folder of foreign origin, `.git/objects`
//! and `.git/refs` may be links into another repository of the user: its files would be read and
//! Apply would move its branch. A log may be a link to any file, which would be appended to. So
//! everything that git reads or writes by name is checked first.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::repository::RepositoryInfo;

/// Paths that git reads or writes in every repository, with any refs.
const CHECKED_NAMES: [&str; 19] = [
    "HEAD",
    "config",
    "config.worktree",
    "index",
    "packed-refs",
    "shallow",
    "objects",
    "objects/info",
    "objects/info/alternates",
    "objects/pack",
    "refs",
    "refs/heads",
    "refs/cleveragents",
    "logs",
    "logs/HEAD",
    "logs/refs",
    "logs/refs/heads",
    "worktrees",
    "modules",
];

/// Fails if a path that git uses in every repository is a link out of the git directory. A link that
/// stays inside, such as an old symbolic `HEAD`, is accepted.
pub(crate) fn check(found: &RepositoryInfo) -> SandboxResult<()> {
    let inside = AllowedFolders::new(&[&found.git_dir, &found.common_dir])?;
    for folder in &inside.folders {
        for name in CHECKED_NAMES {
            inside.check(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Checks a ref and its log, with all folders on the way to them.
pub(crate) fn check_ref(common_dir: &Path, name: &str) -> SandboxResult<()> {
    let inside = AllowedFolders::new(&[common_dir])?;
    for folder in &inside.folders {
        for mut path in [folder.clone(), folder.join("logs")] {
            for part in name.split('/') {
                path.push(part);
                inside.check(&path)?;
            }
        }
    }
    Ok(())
}

/// The folders that a link may lead to.
struct AllowedFolders {
    folders: Vec<PathBuf>,
}

impl AllowedFolders {
    fn new(folders: &[&Path]) -> SandboxResult<Self> {
        let mut real = Vec::new();
        for folder in folders {
            let folder = fs::canonicalize(folder).map_err(crate::files::io_error(folder))?;
            if !real.contains(&folder) {
                real.push(folder);
            }
        }
        Ok(Self { folders: real })
    }

    fn check(&self, path: &Path) -> SandboxResult<()> {
        let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
        if !is_link || link_target(path).is_some_and(|it| self.contains(&it)) {
            return Ok(());
        }
        Err(SandboxError::Foreign {
            path: path.to_owned(),
            reason:
                "it is a link that leads out of the git directory, and such a repository is not \
                     used. Put a copy in its place, or clone the repository with git"
                    .to_owned(),
        })
    }

    fn contains(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }
}

/// Returns the target of a link. Its last part need not exist, because git would create it there.
fn link_target(link: &Path) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(link) {
        return Some(real);
    }
    let named = link.parent()?.join(fs::read_link(link).ok()?);
    let folder = fs::canonicalize(named.parent()?).ok()?;
    Some(folder.join(named.file_name()?))
}
