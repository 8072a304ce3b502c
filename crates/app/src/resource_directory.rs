//! Directories that may become resources.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_api::resource::ResourceAdd;
use cleveragents_api::{FailureKind, NextStep};
use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_engine::projects::LocatedResource;

use crate::failure::{RequestError, display_path};

/// A readable directory by its canonical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceDirectory {
    pub path: PathBuf,
    pub kind: DirectoryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryKind {
    /// The top of a worktree.
    GitCheckout,
    /// A directory below the top of a worktree.
    InsideRepository {
        root: PathBuf,
    },
    /// Its `.git` entry is invalid.
    BrokenCheckout {
        reason: String,
    },
    Directory,
}

impl ResourceDirectory {
    /// Returns the directory as a resource of the type it has. Fails below the top of a repository.
    pub fn to_location(&self) -> Result<LocatedResource, RequestError> {
        let resource_type = match &self.kind {
            DirectoryKind::GitCheckout => ResourceType::GitCheckout,
            DirectoryKind::Directory => ResourceType::FsDirectory,
            DirectoryKind::InsideRepository { root } => {
                return Err(self.inside_repository_failure(root));
            }
            DirectoryKind::BrokenCheckout { reason } => {
                return Err(self.broken_checkout_failure(reason));
            }
        };
        self.to_location_as(resource_type)
    }

    /// Returns the directory as a resource of the given type. Fails if it cannot be one.
    pub fn to_location_as(
        &self,
        resource_type: ResourceType,
    ) -> Result<LocatedResource, RequestError> {
        match (resource_type, &self.kind) {
            (ResourceType::FsDirectory, _)
            | (ResourceType::GitCheckout, DirectoryKind::GitCheckout) => {}
            (_, DirectoryKind::InsideRepository { root }) => {
                return Err(self.inside_repository_failure(root));
            }
            (_, DirectoryKind::BrokenCheckout { reason }) => {
                return Err(self.broken_checkout_failure(reason));
            }
            (_, DirectoryKind::Directory) => return Err(self.no_repository_failure()),
        }
        let bytes = self.path.as_os_str().as_bytes();
        let path = AbsolutePath::from_bytes(bytes).map_err(|error| {
            let what = format!("{} cannot be registered", display_path(&self.path));
            RequestError::usage(what).caused_by(&error)
        })?;
        Ok(LocatedResource {
            path,
            resource_type,
        })
    }

    fn inside_repository_failure(&self, root: &Path) -> RequestError {
        let what = format!(
            "{} is inside the repository {}, not its top",
            display_path(&self.path),
            display_path(root)
        );
        RequestError::usage(what)
            .kind(FailureKind::InsideRepository)
            .because("a git checkout is sandboxed and committed as a whole")
            .hint(format!(
                "use the repository: --path {}",
                shell_quote_path(root)
            ))
            .hint(self.directory_step("or, if only this folder is meant"))
            .with_facts(|facts| facts.repository = Some(display_path(root)))
    }

    fn broken_checkout_failure(&self, reason: &str) -> RequestError {
        let what = format!(
            "the .git of {} is not a git repository",
            display_path(&self.path)
        );
        RequestError::usage(what)
            .kind(FailureKind::BrokenRepository)
            .because(reason)
            .hint(format!("git -C {} status", shell_quote_path(&self.path)))
            .hint(self.directory_step("or, if only the folder is meant"))
    }

    fn no_repository_failure(&self) -> RequestError {
        let what = format!("{} is not a git repository", display_path(&self.path));
        RequestError::usage(what)
            .kind(FailureKind::NotARepository)
            .because("there is no .git in it")
            .hint(format!("git init {}", shell_quote_path(&self.path)))
            .hint(self.directory_step("or"))
    }

    /// Returns the step of registering the directory as one without version control.
    fn directory_step(&self, condition: &str) -> NextStep {
        NextStep::fill_in::<ResourceAdd>(&[
            ("resource_type", ResourceType::FsDirectory.as_str()),
            ("name", "NAME"),
            ("path", &display_path(&self.path)),
        ])
        .with_condition(condition)
    }
}

pub fn shell_quote_path(path: &Path) -> String {
    crate::shell_quote(&display_path(path))
}
