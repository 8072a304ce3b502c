//! Which known secrets a plan wrote into files.
//!
//! Masks hide them wherever a result is shown, so a person who is to decide on it must be told.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::{NamespacedName, ResourcePath};

use super::patch::{FilePatch, file_patches};
use super::results::{PlanDiff, ResourceDiff, ResultReader, ResultsResult};
use crate::ports::sandbox::{DiffChange, DiffLines};
use crate::secrets::Secrets;

/// The most of a binary file that is searched.
const BINARY_LIMIT: usize = 16 << 20;

/// The files that hold each secret, by its name.
pub type SecretFiles = BTreeMap<String, BTreeSet<(NamespacedName, ResourcePath)>>;

impl ResultReader {
    /// The secrets in what the plan added to files, by their names. What a file had before is not
    /// searched, but for a binary one.
    pub async fn secret_files(
        &self,
        diff: &PlanDiff,
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

    /// The secrets in a file as it is now.
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

/// The lines that a patch adds, one after the other: a secret may have several.
fn added_text(patch: &FilePatch<'_>) -> Vec<u8> {
    let lines = patch.hunks.iter().flat_map(|hunk| hunk.insertions());
    lines.collect::<Vec<&[u8]>>().join(&b'\n')
}
