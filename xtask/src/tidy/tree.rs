//! The files of the workspace, read once.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::RustSource;
use crate::files;

/// The input of the rules. Paths are relative to the root, with forward slashes, sorted.
#[derive(Debug, Default)]
pub struct SourceTree {
    pub sources: Vec<RustSource>,
    pub manifests: Vec<TextFile>,
    pub documents: Vec<TextFile>,
    /// Every path in the tree, including folders, for checking links.
    pub paths: Vec<String>,
}

/// A file kept as plain text.
#[derive(Debug)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl SourceTree {
    /// Reads everything below `root` except build output and git's own folder.
    pub fn read(root: &Path) -> Result<SourceTree> {
        let mut tree = SourceTree::default();
        tree.visit(root, "")?;
        tree.paths.sort();
        tree.sources.sort_by(|one, other| one.path.cmp(&other.path));
        tree.manifests
            .sort_by(|one, other| one.path.cmp(&other.path));
        tree.documents
            .sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    pub fn contains(&self, path: &str) -> bool {
        path.is_empty()
            || self
                .paths
                .binary_search_by(|known| known.as_str().cmp(path))
                .is_ok()
    }

    fn visit(&mut self, root: &Path, folder: &str) -> Result<()> {
        let location = root.join(folder);
        let entries = fs::read_dir(&location)
            .with_context(|| format!("cannot list {}", location.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match folder {
                "" => name.clone(),
                _ => format!("{folder}/{name}"),
            };
            if entry.file_type()?.is_dir() {
                if name != ".git" && name != "target" {
                    self.paths.push(path.clone());
                    self.visit(root, &path)?;
                }
            } else {
                self.add(root, path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, path: String) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(&path);
        if has_extension(name, "rs") {
            let text = files::read(&root.join(&path))?;
            self.sources.push(RustSource::new(path.clone(), &text));
        } else if name == "Cargo.toml" || has_extension(name, "md") {
            let document = TextFile {
                path: path.clone(),
                text: files::read(&root.join(&path))?,
            };
            match name {
                "Cargo.toml" => self.manifests.push(document),
                _ => self.documents.push(document),
            }
        }
        self.paths.push(path);
        Ok(())
    }
}

fn has_extension(name: &str, wanted: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == wanted)
}
