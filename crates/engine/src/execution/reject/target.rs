//! Which part of a result is meant.

use cleveragents_domain::ResourcePath;
use cleveragents_domain::sandbox::SandboxRecord;

use super::{RejectError, Rejection, Result};
use crate::execution::patch::{FilePatch, files};
use crate::execution::results::{PlanDiff, ResourceDiff, ResultsError, names};
use crate::ports::sandbox::{DiffChange, Part};

/// What is taken out of which sandbox.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) record: SandboxRecord,
    pub(super) path: ResourcePath,
    pub(super) hunk: Option<u32>,
    pub(super) part: Part,
}

/// What is meant, in the difference as it is.
pub(super) fn target(diff: &PlanDiff, ask: &Rejection) -> Result<Target> {
    let names = names(&ask.path);
    let is_meant = |file: &FilePatch<'_>| {
        let old = file.file.renamed_from.as_ref();
        names.contains(&file.file.path) || old.is_some_and(|old| names.contains(old))
    };
    let mut found: Vec<(&ResourceDiff, FilePatch<'_>)> = Vec::new();
    for one in &diff.resources {
        let patches = files(&one.diff).map_err(ResultsError::from)?;
        found.extend(patches.into_iter().find(is_meant).map(|file| (one, file)));
    }
    let (one, file) = match found.as_slice() {
        [one] => one,
        [] => {
            let all = diff.resources.iter().flat_map(|it| &it.diff.files);
            return Err(ResultsError::NotChanged {
                typed: ask.path.clone(),
                changed: all.map(|file| file.path.clone()).collect(),
            }
            .into());
        }
        several => {
            let names = several.iter().map(|(it, _)| &it.sandbox.resource_name);
            return Err(RejectError::Several {
                resources: names.cloned().collect(),
            });
        }
    };
    let (hunk, part) = part(file, ask.hunk)?;
    Ok(Target {
        record: one.sandbox.clone(),
        path: file.file.path.clone(),
        hunk,
        part,
    })
}

/// The part of a file that is meant. What has only one hunk because it is new or gone goes as a
/// whole.
fn part(file: &FilePatch<'_>, hunk: Option<u32>) -> Result<(Option<u32>, Part)> {
    let stat = file.file;
    let whole = || {
        let paths = stat.renamed_from.iter().chain([&stat.path]);
        Part::Paths(paths.cloned().collect())
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
        DiffChange::Modified | DiffChange::Renamed => match file.only(hunk) {
            Some(patch) => Ok((Some(number), Part::Patch(patch))),
            None => Ok((None, whole())),
        },
    }
}
