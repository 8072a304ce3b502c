//! Resolves the part of a result that a rejection refers to.

use cleveragents_domain::ResourcePath;
use cleveragents_domain::sandbox::SandboxRecord;

use super::{RejectError, Rejection, Result};
use crate::execution::patch::{FilePatch, file_patches};
use crate::execution::results::{ResourceDiff, ResultDiff, ResultsError, candidate_paths};
use cleveragents_ports::sandbox::{DiffChange, DiffPart};

/// The part to remove, and its sandbox.
#[derive(Debug, Clone)]
pub(super) struct RejectionTarget {
    pub(super) record: SandboxRecord,
    pub(super) path: ResourcePath,
    pub(super) hunk: Option<u32>,
    pub(super) part: DiffPart,
}

/// Finds the rejected part in the current diff.
pub(super) fn find_target(diff: &ResultDiff, rejection: &Rejection) -> Result<RejectionTarget> {
    let names = candidate_paths(&rejection.path);
    let is_meant = |file: &FilePatch<'_>| {
        let old = file.file.renamed_from.as_ref();
        names.contains(&file.file.path) || old.is_some_and(|old| names.contains(old))
    };
    let mut found: Vec<(&ResourceDiff, FilePatch<'_>)> = Vec::new();
    for one in &diff.resources {
        let patches = file_patches(&one.diff).map_err(ResultsError::from)?;
        found.extend(patches.into_iter().find(is_meant).map(|file| (one, file)));
    }
    let (one, file) = match found.as_slice() {
        [one] => one,
        [] => {
            let all = diff.resources.iter().flat_map(|it| &it.diff.files);
            return Err(ResultsError::NotChanged {
                typed: rejection.path.clone(),
                changed: all.map(|file| file.path.clone()).collect(),
            }
            .into());
        }
        several => {
            let names = several.iter().map(|(it, _)| &it.sandbox.resource_name);
            return Err(RejectError::AmbiguousPath {
                resources: names.cloned().collect(),
            });
        }
    };
    let (hunk, part) = target_part(file, rejection.hunk)?;
    Ok(RejectionTarget {
        record: one.sandbox.clone(),
        path: file.file.path.clone(),
        hunk,
        part,
    })
}

/// Returns the part of a file to remove. A new or deleted file has a single hunk and is removed as
/// a whole.
fn target_part(file: &FilePatch<'_>, hunk: Option<u32>) -> Result<(Option<u32>, DiffPart)> {
    let stat = file.file;
    let whole = || {
        let paths = stat.renamed_from.iter().chain([&stat.path]);
        DiffPart::Paths(paths.cloned().collect())
    };
    let Some(number) = hunk else {
        return Ok((None, whole()));
    };
    let place = usize::try_from(number)
        .ok()
        .and_then(|it| it.checked_sub(1));
    let Some(hunk) = place.and_then(|place| file.hunks.get(place)) else {
        return Err(RejectError::NoHunk {
            path: stat.path.clone(),
            hunk: number,
            hunks: file.hunks.len(),
        });
    };
    match stat.change {
        DiffChange::Added | DiffChange::Deleted | DiffChange::Retyped => Ok((None, whole())),
        DiffChange::Modified | DiffChange::Renamed => match file.single_hunk_patch(hunk) {
            Some(patch) => Ok((Some(number), DiffPart::Patch(patch))),
            None => Ok((None, whole())),
        },
    }
}
