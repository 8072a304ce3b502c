//! Uncommitted files, which a plan does not see because it starts from the last commit.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use cleveragents_api::uncommitted::UncommittedFiles;
use cleveragents_domain::{AbsolutePath, Resource, ResourceType};
use cleveragents_ports::sandbox::Sandboxes;

use crate::failure::display_path;
use crate::services::Services;

/// Number of files that a warning names.
const NAMED_MAXIMUM: usize = 5;

/// Finds uncommitted files in the checkouts among `resources`. A checkout that cannot be read
/// is skipped; its errors are reported when the plan starts.
pub(crate) fn find_uncommitted(
    services: &Services,
    resources: &[Resource],
) -> Vec<UncommittedFiles> {
    let is_checkout = |it: &&Resource| it.resource_type == ResourceType::GitCheckout;
    let checkouts = resources.iter().filter(is_checkout);
    find_uncommitted_in(services, checkouts.map(|it| &it.path))
}

/// Finds uncommitted files in checkouts.
pub(crate) fn find_uncommitted_in<'a>(
    services: &Services,
    checkouts: impl IntoIterator<Item = &'a AbsolutePath>,
) -> Vec<UncommittedFiles> {
    let mut checkouts = checkouts.into_iter().peekable();
    if checkouts.peek().is_none() {
        return Vec::new();
    }
    let sandboxes = match services.adapters().sandboxes() {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            tracing::info!(%error, "uncommitted files were not checked");
            return Vec::new();
        }
    };
    checkouts
        .filter_map(|checkout| inspect(&*sandboxes, checkout))
        .collect()
}

fn inspect(sandboxes: &dyn Sandboxes, checkout: &AbsolutePath) -> Option<UncommittedFiles> {
    let checkout = PathBuf::from(OsString::from_vec(checkout.as_bytes().to_vec()));
    match sandboxes.inspect(&checkout) {
        Ok(found) if found.uncommitted.is_empty() => None,
        Ok(found) => Some(UncommittedFiles {
            checkout: display_path(&checkout),
            files: found.uncommitted,
        }),
        Err(error) => {
            tracing::info!(%error, path = %checkout.display(), "not checked");
            None
        }
    }
}

/// Returns the warning about files that a plan does not see.
pub fn uncommitted_warning(found: &UncommittedFiles) -> String {
    let named = found.files.iter().take(NAMED_MAXIMUM);
    let named: Vec<String> = named.map(|file| file.path.to_string()).collect();
    let more = match found.files.len().saturating_sub(NAMED_MAXIMUM) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (count, them) = match found.files.len() {
        1 => ("1 file".to_owned(), "it"),
        number => (format!("{number} files"), "them"),
    };
    format!(
        "{count} of {} not committed, so the plan does not see {them}: {}{more}; \
         --base worktree includes them",
        found.checkout,
        named.join(", "),
    )
}
