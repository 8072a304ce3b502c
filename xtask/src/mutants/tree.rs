//! The copy of the work tree that mutants are tested on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{files, process};

/// A copy of everything git tracks or would track.
#[derive(Debug)]
pub struct TreeCopy {
    tree: PathBuf,
}

impl TreeCopy {
    /// Makes `tree` equal to `source`. Unchanged files keep their timestamps, so builds stay
    /// incremental.
    pub fn refresh(source: &Path, tree: &Path) -> Result<TreeCopy> {
        let wanted = listed_files(source)?;
        fs::create_dir_all(tree)?;
        for path in present_files(tree, Path::new(""))? {
            if !wanted.contains(&path) {
                fs::remove_file(tree.join(&path))?;
            }
        }
        for path in &wanted {
            copy_if_different(&source.join(path), &tree.join(path))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
        Ok(TreeCopy {
            tree: tree.to_path_buf(),
        })
    }

    /// Writes changed texts to the copy.
    pub fn write(&self, changed: &[(PathBuf, String)]) -> Result<()> {
        for (path, text) in changed {
            files::write(&self.tree.join(path), text)?;
        }
        Ok(())
    }

    /// Restores changed files from `source`.
    pub fn restore(&self, source: &Path, changed: &[(PathBuf, String)]) -> Result<()> {
        for (path, _) in changed {
            copy_if_different(&source.join(path), &self.tree.join(path))?;
        }
        Ok(())
    }
}

/// Tracked files and new ones that are not ignored, if they exist.
fn listed_files(source: &Path) -> Result<BTreeSet<PathBuf>> {
    let list = process::capture(process::command("git").current_dir(source).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(list
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .filter(|path| source.join(path).is_file())
        .collect())
}

fn present_files(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(present_files(root, &path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn copy_if_different(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)?;
    Ok(())
}
