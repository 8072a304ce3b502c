//! Finds new files that the rules of a sparse checkout keep out of the working tree.

use std::collections::BTreeSet;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{CheckoutCoverage, SandboxResult};
use cleveragents_ports::targets::PathChange;

use crate::apply::checkouts::UserWorktree;
use crate::repository::nul_records;
use crate::view::RepositoryView;

/// Returns the added paths that the sparse checkout of `worktree` leaves out.
pub(crate) fn excluded_paths<'a>(
    worktree: &UserWorktree,
    changes: &'a [PathChange],
) -> SandboxResult<BTreeSet<&'a ResourcePath>> {
    let added = changes.iter().filter(|change| change.old.is_none());
    let added: BTreeSet<&ResourcePath> = added.map(|change| &change.path).collect();
    if added.is_empty() || worktree.repository.coverage() == CheckoutCoverage::Complete {
        return Ok(BTreeSet::new());
    }
    let mut input = Vec::new();
    for path in &added {
        input.extend_from_slice(path.as_bytes());
        input.push(0);
    }
    let view = RepositoryView::new(&worktree.repository)?;
    let call = view.call(["sparse-checkout", "check-rules", "-z"]);
    let answer = call.run_with(&input)?;
    let covered: BTreeSet<&[u8]> = nul_records(&answer).collect();
    let is_left_out = |path: &&ResourcePath| !covered.contains(path.as_bytes());
    Ok(added.into_iter().filter(is_left_out).collect())
}
