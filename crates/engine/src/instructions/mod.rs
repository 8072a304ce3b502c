//! What a resource itself says to actors with a model: the texts of its `AGENTS.md` files, and the
//! skills it offers in folders with a `SKILL.md`.
//!
//! Nothing here is trusted and nothing is required: what is missing is not there, what is broken or
//! too much is left out with a warning. The result depends on the files alone, in a fixed order.
//! Whoever asks says how files are read, so this knows no file system.

mod skills;
mod texts;

use cleveragents_domain::ResourcePath;

pub use skills::{DESCRIPTION_MAXIMUM, NAME_MAXIMUM, SKILLS_MAXIMUM, Skill, Skills, find_skills};
pub use texts::{Instruction, Instructions, TEXTS_MAXIMUM, TOTAL_MAXIMUM, find_instructions};

/// The files of one resource as they are now. Both methods block, and neither leaves the resource:
/// a link that leads out of it is as good as not there.
pub trait ResourceFiles {
    /// The first `most` bytes of a file; `None` if there is no file of this path.
    fn read(&self, path: &ResourcePath, most: usize) -> Result<Option<Vec<u8>>, UnreadablePath>;

    /// The paths of what is directly in a folder, in any order; none if there is no such folder.
    fn entries(&self, folder: &ResourcePath) -> Result<Vec<ResourcePath>, UnreadablePath>;
}

/// A path that is there and cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be read: {reason}")]
pub struct UnreadablePath {
    pub path: ResourcePath,
    pub reason: String,
}

/// How many warnings are kept; nobody reads more.
const WARNINGS_MAXIMUM: usize = 20;

/// What was left out, in words; the rest beyond a bound is counted.
#[derive(Debug, Default)]
struct Warnings {
    kept: Vec<String>,
    omitted: usize,
}

impl Warnings {
    fn add(&mut self, text: impl Into<String>) {
        match self.kept.len() < WARNINGS_MAXIMUM {
            true => self.kept.push(text.into()),
            false => self.omitted += 1,
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.omitted > 0 {
            self.kept.push(format!("and {} more", self.omitted));
        }
        self.kept
    }
}

/// `name` in `folder`; the root has no path of its own.
fn join_path(folder: Option<&ResourcePath>, name: &str) -> Option<ResourcePath> {
    let mut bytes = Vec::new();
    if let Some(folder) = folder {
        bytes.extend_from_slice(folder.as_bytes());
        bytes.push(b'/');
    }
    bytes.extend_from_slice(name.as_bytes());
    ResourcePath::from_bytes(bytes).ok()
}

/// The text of bytes of which at most `most` were read, so that the last character may be cut.
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
