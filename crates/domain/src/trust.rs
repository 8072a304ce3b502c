//! Files that a repository contains, and the user's consent to use them.
//!
//! A repository is untrusted content: the program acts on its files only after the user has seen
//! and allowed exactly this content. A consent therefore names the file *and* its hash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ResourcePath;
use crate::project::AbsolutePath;
use crate::time::Timestamp;

/// A repository file, with the hash of the content that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryFile {
    /// The root of the working tree, with symbolic links resolved.
    pub repository: AbsolutePath,
    /// Relative to `repository`.
    pub path: ResourcePath,
    /// BLAKE3 of the bytes that were read.
    pub hash: String,
}

/// The user's consent to use a file with exactly this content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    pub file: RepositoryFile,
    /// The user who consented.
    pub actor: String,
    pub given_at: Timestamp,
}

/// Whether a file may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustState {
    /// The user consented to this content.
    Trusted,
    /// The user never consented to any content of this file.
    FirstUse,
    /// The user consented to different content.
    Changed,
}

impl RepositoryFile {
    /// Compares the file with all consents to it, whatever content they name.
    pub fn trust_state(&self, consents: &[Consent]) -> TrustState {
        let of_this_file = |consent: &&Consent| {
            consent.file.repository == self.repository && consent.file.path == self.path
        };
        let mut known = consents.iter().filter(of_this_file).peekable();
        if known.peek().is_none() {
            TrustState::FirstUse
        } else if known.any(|consent| consent.file.hash == self.hash) {
            TrustState::Trusted
        } else {
            TrustState::Changed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(repository: &str, path: &str, hash: &str) -> RepositoryFile {
        RepositoryFile {
            repository: AbsolutePath::from_bytes(repository).unwrap(),
            path: ResourcePath::from_bytes(path).unwrap(),
            hash: hash.to_owned(),
        }
    }

    #[test]
    fn consent_is_to_one_content_of_one_file_of_one_repository() {
        let consents: Vec<Consent> = [("/a", "x", "1"), ("/a", "x", "2"), ("/a", "y", "3")]
            .map(|(repository, path, hash)| Consent {
                file: file(repository, path, hash),
                actor: "me".to_owned(),
                given_at: Timestamp::default(),
            })
            .into();
        for (asked, expected) in [
            (file("/a", "x", "1"), TrustState::Trusted),
            (file("/a", "x", "2"), TrustState::Trusted),
            (file("/a", "x", "3"), TrustState::Changed),
            (file("/a", "z", "1"), TrustState::FirstUse),
            (file("/b", "x", "1"), TrustState::FirstUse),
        ] {
            assert_eq!(asked.trust_state(&consents), expected, "{asked:?}");
        }
        assert_eq!(file("/a", "x", "1").trust_state(&[]), TrustState::FirstUse);
    }
}
