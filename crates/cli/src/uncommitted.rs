//! Uncommitted files, which a plan does not see because it starts from the last commit.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use cleveragents_domain::{Resource, ResourceType};
use cleveragents_ports::sandbox::{Sandboxes, UncommittedFile};
use serde_json::{Value, json};

use crate::bootstrap::Bootstrap;
use crate::environment::Environment;
use crate::failure::display_path;
use crate::output::format_count;
use crate::process;

/// How many files a warning lists by name.
const NAMED_MAXIMUM: usize = 5;

#[derive(Debug)]
pub struct UncommittedFiles {
    checkout: PathBuf,
    files: Vec<UncommittedFile>,
}

/// Finds uncommitted files in the checkouts among `resources`. A checkout that cannot be read is
/// skipped; its errors are reported when the plan starts.
pub fn find_uncommitted(
    resources: &[Resource],
    bootstrap: &Bootstrap,
    environment: &Environment,
) -> Vec<UncommittedFiles> {
    let checkouts: Vec<&Resource> = resources
        .iter()
        .filter(|resource| resource.resource_type == ResourceType::GitCheckout)
        .collect();
    let program = if checkouts.is_empty() {
        None
    } else {
        process::find("git", environment)
    };
    let Some(program) = program else {
        return Vec::new();
    };
    let sandboxes = match bootstrap.sandboxes(program, environment) {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            tracing::info!(%error, "uncommitted files were not checked");
            return Vec::new();
        }
    };
    checkouts
        .into_iter()
        .filter_map(|resource| inspect(&*sandboxes, resource))
        .collect()
}

fn inspect(sandboxes: &dyn Sandboxes, resource: &Resource) -> Option<UncommittedFiles> {
    let checkout = PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()));
    match sandboxes.inspect(&checkout) {
        Ok(found) if found.uncommitted.is_empty() => None,
        Ok(found) => Some(UncommittedFiles {
            checkout,
            files: found.uncommitted,
        }),
        Err(error) => {
            tracing::info!(%error, path = %checkout.display(), "not checked");
            None
        }
    }
}

impl UncommittedFiles {
    pub fn warning(&self) -> String {
        let number = i64::try_from(self.files.len()).unwrap_or(i64::MAX);
        let named = self.files.iter().take(NAMED_MAXIMUM);
        let named: Vec<String> = named.map(|file| file.path.to_string()).collect();
        let more = match self.files.len().saturating_sub(NAMED_MAXIMUM) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "{} of {} not committed, so the plan does not see {}: {}{more}; \
             --base worktree includes them",
            format_count(number, "file"),
            display_path(&self.checkout),
            match number {
                1 => "it",
                _ => "them",
            },
            named.join(", "),
        )
    }

    pub fn data(&self) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| json!({"path": file.path, "kind": file.kind}))
            .collect();
        json!({"checkout": display_path(&self.checkout), "files": files})
    }
}
