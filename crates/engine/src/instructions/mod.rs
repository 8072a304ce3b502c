//! Guidance in a resource for actors with a model: its `AGENTS.md` files, and its skills (folders
//! with a `SKILL.md`).
//!
//! Nothing here is trusted or required: missing files are skipped, broken or oversized ones are
//! left out with a warning. The result depends only on the files, in a fixed order. The caller
//! provides file access, so this module knows no file system.

mod skills;
mod texts;

use cleveragents_domain::ResourcePath;

pub use skills::{DESCRIPTION_MAXIMUM, NAME_MAXIMUM, SKILLS_MAXIMUM, Skill, Skills, find_skills};
pub use texts::{Instruction, Instructions, TEXTS_MAXIMUM, TOTAL_MAXIMUM, find_instructions};

/// The current files of one resource. Both methods block and never leave the resource: a link that
/// leads out of it counts as missing.
pub trait ResourceFiles {
    /// Returns the first `most` bytes of a file; `None` if there is no such file.
    fn read(&self, path: &ResourcePath, most: usize) -> Result<Option<Vec<u8>>, UnreadablePath>;

    /// Returns the paths directly in a folder, in any order; empty if there is no such folder.
    fn entries(&self, folder: &ResourcePath) -> Result<Vec<ResourcePath>, UnreadablePath>;
}

/// An existing path that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be read: {reason}")]
pub struct UnreadablePath {
    pub path: ResourcePath,
    pub reason: String,
}

/// Maximum number of warnings.
const WARNINGS_MAXIMUM: usize = 20;

/// Warnings about omitted texts; those beyond the maximum are only counted.
#[derive(Debug, Default)]
struct Warnings {
    kept: Vec<String>,
    omitted: usize,
}

impl Warnings {
    fn add(&mut self, text: impl Into<String>) {
        if self.kept.len() < WARNINGS_MAXIMUM {
            self.kept.push(text.into());
        } else {
            self.omitted += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.omitted > 0 {
            self.kept.push(format!("and {} more", self.omitted));
        }
        self.kept
    }
}

/// Returns `name` in `folder`; `None` is the root.
fn join_path(folder: Option<&ResourcePath>, name: &str) -> Option<ResourcePath> {
    let mut bytes = Vec::new();
    if let Some(folder) = folder {
        bytes.extend_from_slice(folder.as_bytes());
        bytes.push(b'/');
    }
    bytes.extend_from_slice(name.as_bytes());
    ResourcePath::from_bytes(bytes).ok()
}

/// Decodes bytes of which at most `most` were read, so that the last character may be cut off.
fn decode_text(bytes: Vec<u8>, most: usize) -> Option<String> {
    let cut = bytes.len() >= most;
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8(error.into_bytes()[..valid].to_vec()).ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
