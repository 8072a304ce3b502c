//! All sandboxes of one data directory.

use std::path::{Path, PathBuf};

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_ports::sandbox::{
    Checkout, CreatedSandbox, DiscardOutcome, Inspection, NewSandbox, PublishedCommit, Sandbox,
    SandboxBase, SandboxError, SandboxMarker, SandboxResult, Sandboxes,
};

use crate::files::{create_private_folder, io_error, is_not_found, lock, path_from_bytes, remove};
use crate::filters::AllowedFilters;
use crate::git::{Git, GitSettings};
use crate::layout::{Layout, Marker, SandboxProperties};
use crate::limits::CaptureLimits;
use crate::repository::UserRepository;
use crate::sandbox::LocalSandbox;
use crate::{make_folder, make_git, ownership, references, set_base};

#[derive(Debug)]
pub struct LocalSandboxes {
    git: Git,
    root: PathBuf,
    locks: PathBuf,
    limits: CaptureLimits,
}

impl LocalSandboxes {
    /// Opens the sandboxes: they are in `sandboxes/` of the data directory, locks on users'
    /// repositories in `repositories/`. Fails if git is too old.
    pub fn open(data_directory: &Path, git: GitSettings) -> SandboxResult<Self> {
        let git = Git::new(git, data_directory.join("views"));
        git.check_version()?;
        let root = data_directory.join("sandboxes");
        create_private_folder(&root)?;
        Ok(Self {
            git,
            root: root.canonicalize().map_err(io_error(&root))?,
            locks: data_directory.join("repositories"),
            limits: CaptureLimits::default(),
        })
    }

    /// Allows plans to change files with these filters, in the form that git stores.
    #[must_use]
    pub fn with_allowed_filters(mut self, filters: impl IntoIterator<Item = String>) -> Self {
        self.git.allowed = AllowedFilters::new(filters);
        self
    }

    #[must_use]
    pub fn with_limits(mut self, limits: CaptureLimits) -> Self {
        self.limits = limits;
        self
    }

    fn make_sandbox(&self, layout: &Layout, marker: &Marker) -> SandboxResult<SandboxProperties> {
        match marker.resource_type {
            ResourceType::GitCheckout => make_git::make(&self.git, layout, marker, &self.locks),
            ResourceType::FsDirectory => make_folder::make(&self.git, layout, marker, &self.locks),
        }
    }
}

impl Sandboxes for LocalSandboxes {
    fn inspect(&self, path: &Path) -> SandboxResult<Inspection> {
        UserRepository::find(&self.git, path)?.inspect()
    }

    fn check_usable(&self, path: &AbsolutePath, kind: ResourceType) -> SandboxResult<()> {
        let path = path_from_bytes(path.as_bytes());
        if !path.is_dir() {
            return Err(SandboxError::NotAFolder {
                path: path.to_owned(),
            });
        }
        match kind {
            ResourceType::FsDirectory => Ok(()),
            ResourceType::GitCheckout => {
                match UserRepository::find_cached(&self.git, path)?.checkout {
                    Checkout::Bare => Err(SandboxError::Bare {
                        path: path.to_owned(),
                    }),
                    Checkout::At(_) => Ok(()),
                }
            }
        }
    }

    fn create(&self, new: &NewSandbox) -> SandboxResult<CreatedSandbox> {
        let layout = Layout::new(&self.root, new.id);
        // Fails before anything is created if the folder belongs to something else.
        Marker::read(&self.root, new.id)?;
        create_private_folder(&layout.folder)?;
        let _held = lock(&layout.lock())?;
        // Read again under the lock, because another process may have made the sandbox meanwhile.
        let found = Marker::read(&self.root, new.id)?;
        if let Some(Marker {
            made: Some(made), ..
        }) = &found
        {
            return Ok(created_result(&layout, made));
        }
        // A killed call may have left it incomplete: start again from nothing (law 9).
        layout.contents().iter().try_for_each(|path| remove(path))?;
        // The marker comes first, so that after a kill the folder is recognised as ours.
        let mut marker = Marker::new(new);
        marker.write(&layout)?;
        let made = self.make_sandbox(&layout, &marker)?;
        ownership::make_readable(&layout.git()).map_err(io_error(&layout.git()))?;
        let answer = created_result(&layout, &made);
        // The confirmation: only now is the sandbox complete (law 9).
        marker.made = Some(made);
        marker.write(&layout)?;
        Ok(answer)
    }

    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>> {
        let marker = Marker::read(&self.root, id)?;
        let marker = marker.ok_or(SandboxError::NotFound { id })?;
        let layout = Layout::new(&self.root, id);
        let mut sandbox = LocalSandbox::new(&self.git, layout, marker, &self.locks)?;
        sandbox.limits = self.limits;
        Ok(Box::new(sandbox))
    }

    fn set_base(&self, id: SandboxId, base: &SandboxBase) -> SandboxResult<()> {
        let marker = Marker::read(&self.root, id)?;
        let marker = marker.ok_or(SandboxError::NotFound { id })?;
        let made = marker.made.as_ref();
        let is_base =
            |it: &SandboxProperties| (&it.tree, &it.base_commit) == (&base.tree, &base.commit);
        if made.is_some_and(is_base) {
            return Ok(());
        }
        let layout = Layout::new(&self.root, id);
        let sandbox = LocalSandbox::new(&self.git, layout, marker, &self.locks)?;
        let _held = sandbox.lock()?;
        set_base::set_base(sandbox, base)
    }

    fn discard(&self, id: SandboxId) -> SandboxResult<DiscardOutcome> {
        let layout = Layout::new(&self.root, id);
        let marker = Marker::read(&self.root, id)?;
        if let Some(marker) = &marker {
            self.unpin(marker)?;
        } else if layout.folder.symlink_metadata().is_err() {
            return Ok(DiscardOutcome::Absent);
        }
        layout.contents().iter().try_for_each(|path| remove(path))?;
        // The marker is removed last: if a call is killed before, the next one recognises it and
        // retries.
        remove(&layout.lock())?;
        remove(&layout.marker().with_extension("next"))?;
        remove(&layout.marker())?;
        match std::fs::remove_dir(&layout.folder) {
            Err(error) if !is_not_found(&error) => Err(io_error(&layout.folder)(error)),
            _ => Ok(DiscardOutcome::Removed),
        }
    }

    fn list(&self) -> SandboxResult<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(io_error(&self.root))? {
            let entry = entry.map_err(io_error(&self.root))?;
            ids.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<SandboxId>().ok()),
            );
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn read_marker(&self, id: SandboxId) -> SandboxResult<Option<SandboxMarker>> {
        let marker = Marker::read(&self.root, id)?;
        Ok(marker.map(|marker| SandboxMarker {
            plan: marker.plan,
            resource: marker.resource,
            resource_type: marker.resource_type,
        }))
    }

    fn find_published(
        &self,
        path: &AbsolutePath,
        plan: PlanId,
    ) -> SandboxResult<Option<PublishedCommit>> {
        let Some(repository) = self.find_repository(path_from_bytes(path.as_bytes()))? else {
            return Ok(None);
        };
        let reference = references::published_ref(plan);
        let commit = references::read(&repository, &reference)?;
        Ok(commit.map(|commit| PublishedCommit { reference, commit }))
    }

    fn withdraw(&self, path: &AbsolutePath, plan: PlanId) -> SandboxResult<()> {
        match self.find_repository(path_from_bytes(path.as_bytes()))? {
            Some(found) => {
                references::delete(&self.locks, &found, &references::published_ref(plan))
            }
            None => Ok(()),
        }
    }
}

impl LocalSandboxes {
    /// Removes the ref that protects the base of a sandbox.
    fn unpin(&self, marker: &Marker) -> SandboxResult<()> {
        if marker.resource_type != ResourceType::GitCheckout {
            return Ok(());
        }
        match self.find_repository(path_from_bytes(marker.resource.as_bytes()))? {
            Some(found) => {
                let next = references::next_base_ref(marker.plan, marker.id);
                references::delete(&self.locks, &found, &next)?;
                let name = references::base_ref(marker.plan, marker.id);
                references::delete(&self.locks, &found, &name)
            }
            None => Ok(()),
        }
    }

    /// Returns the user's repository, or `None` if it no longer exists; then nothing of ours is
    /// there.
    fn find_repository(&self, path: &Path) -> SandboxResult<Option<UserRepository>> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        match UserRepository::find(&self.git, path) {
            Ok(repository) => Ok(Some(repository)),
            Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn created_result(layout: &Layout, made: &SandboxProperties) -> CreatedSandbox {
    CreatedSandbox {
        tree: layout.tree(),
        base: made.tree.clone(),
        base_commit: made.base_commit.clone(),
        warnings: made.warnings.clone(),
    }
}
