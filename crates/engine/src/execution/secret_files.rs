//! Finds known secrets in the files that a plan wrote.
//!
//! Needed because diffs show masks, so the user cannot see that a real value would be applied.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::{NamespacedName, ResourcePath};

use super::patch::{FilePatch, file_patches};
use super::results::{ResourceDiff, ResultDiff, ResultReader, ResultsResult};
use crate::secrets::Secrets;
use cleveragents_ports::sandbox::{DiffChange, DiffLines};

/// The maximum number of bytes of a binary file to search.
const BINARY_LIMIT: usize = 16 << 20;

/// The files that contain each secret, by the secret's name.
pub type SecretFiles = BTreeMap<String, BTreeSet<(NamespacedName, ResourcePath)>>;

impl ResultReader {
    /// Returns the secrets in the lines that the plan added. Of a binary file, the whole content
    /// is searched.
    pub async fn secret_files(
        &self,
        diff: &ResultDiff,
        secrets: &Secrets,
    ) -> ResultsResult<SecretFiles> {
        let mut found = SecretFiles::new();
        for one in &diff.resources {
            for patch in file_patches(&one.diff)? {
                let names = match patch.file.lines {
                    DiffLines::Text { .. } => secrets.names_in(&added_text(&patch)),
                    DiffLines::Binary => self.secrets_in_file(one, &patch, secrets).await?,
                };
                for name in names {
                    let file = (one.sandbox.resource_name.clone(), patch.file.path.clone());
                    found.entry(name).or_default().insert(file);
                }
            }
        }
        Ok(found)
    }

    /// Returns the secrets in the current content of a file.
    async fn secrets_in_file(
        &self,
        one: &ResourceDiff,
        patch: &FilePatch<'_>,
        secrets: &Secrets,
    ) -> ResultsResult<BTreeSet<String>> {
        if patch.file.change == DiffChange::Deleted {
            return Ok(BTreeSet::new());
        }
        let path = patch.file.path.clone();
        let read = self.query_sandbox(&one.sandbox, move |sandbox| {
            sandbox.read(&path, BINARY_LIMIT)
        });
        let content = read.await?.unwrap_or_default();
        Ok(secrets.names_in(&content))
    }
}

/// Joins the added lines of a patch, because a secret may span several lines.
fn added_text(patch: &FilePatch<'_>) -> Vec<u8> {
    let lines = patch.hunks.iter().flat_map(|hunk| hunk.insertions());
    lines.collect::<Vec<&[u8]>>().join(&b'\n')
}
