//! Apply: a plan's result goes home to the user's repository or folder.
//!
//! Everything is worked out in a store of ours ([`workbench`]) and laid out as files ([`staging`])
//! before anything of the user's changes. Carrying out goes path by path, each by compare-and-swap
//! ([`place`]), so that a first run and the one that finishes a killed one are the same code. Git
//! writes neither the user's files nor their index, because a git that is killed, or that lives on
//! when we are killed, would leave both in a state nobody wrote down.
//!
//! Start reading at [`LocalTargets`], then `prepare_commit` and `carry_commit`.

mod abort;
mod branches;
mod carry_commit;
mod carry_files;
mod checkouts;
mod forbidden;
mod index;
mod masks;
mod patch;
mod place;
mod prepare_commit;
mod prepare_files;
mod record;
mod sparse;
mod staging;
mod standing;
mod steps;
mod turns;
mod workbench;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::id::{ApplyId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{
    Aborted, ApplyIntent, ApplyRequest, Author, Carried, Conflict, ConflictReason, Destination,
    Effect, Prepared, RequestedChange, Stopped, TargetError, TargetResult, Targets,
};

use crate::files::{create_private_folder, failed, path_of};
use crate::filters::AllowedFilters;
use crate::git::{Git, GitSettings};
use crate::layout::{Layout, Marker};
use crate::references;
use crate::repository::Repository;
use crate::sandbox::LocalSandbox;
use record::Record;
use turns::LockWait;

pub use steps::{ApplyStep, Unwatched, Watcher};

/// The user's repositories and folders on this machine.
#[derive(Debug)]
pub struct LocalTargets {
    git: Git,
    sandboxes: PathBuf,
    applies: PathBuf,
    locks: PathBuf,
    lock_wait: LockWait,
    watcher: Arc<dyn Watcher>,
}

impl LocalTargets {
    /// What is kept of an apply is in `applies/` of the data directory; sandboxes and locks are
    /// where they are for `LocalSandboxes`. A git that is too old is refused here.
    pub fn open(
        data_directory: &Path,
        git: GitSettings,
        watcher: Arc<dyn Watcher>,
    ) -> TargetResult<Self> {
        let git = Git::new(git, data_directory.join("views"));
        git.check_version()?;
        let resolved = |name: &str| -> SandboxResult<PathBuf> {
            let path = data_directory.join(name);
            create_private_folder(&path)?;
            path.canonicalize().map_err(failed(&path))
        };
        Ok(Self {
            git,
            sandboxes: resolved("sandboxes")?,
            applies: resolved("applies")?,
            locks: data_directory.join("repositories"),
            lock_wait: LockWait::Forever,
            watcher,
        })
    }

    /// The same, where plans may change files that have these filters, in the form git stores.
    #[must_use]
    pub fn allowing(mut self, filters: impl IntoIterator<Item = String>) -> Self {
        self.git.allowed = AllowedFilters::new(filters);
        self
    }

    /// The same, for work that others left: a lock that somebody holds is not waited for.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.lock_wait = LockWait::Never;
        self
    }

    fn reached(&self, step: ApplyStep) {
        self.watcher.reached(step);
    }

    /// The sandbox a result is in.
    fn sandbox(&self, id: SandboxId) -> SandboxResult<LocalSandbox> {
        let marker = Marker::read(&self.sandboxes, id)?;
        let marker = marker.ok_or(SandboxError::NotFound { id })?;
        let layout = Layout::of(&self.sandboxes, id);
        let sandbox = LocalSandbox::new(&self.git, layout, marker, &self.locks)?;
        sandbox.store.seal()?;
        Ok(sandbox)
    }

    fn prepare_anew(&self, record: &Record, request: &ApplyRequest) -> TargetResult<Prepared> {
        let masks = masks::written(self, request)?;
        if !masks.is_empty() {
            return Ok(Prepared::Blocked(masks));
        }
        let prepared = match (&request.destination, request.resource_type) {
            (Destination::Patch(file), _) => patch::prepare(self, record, request, file),
            (Destination::Worktree, ResourceType::GitCheckout) => match &request.change {
                RequestedChange::Result { .. } => {
                    prepare_commit::prepare_worktree(self, record, request)
                }
                RequestedChange::Reverse(applied) => {
                    prepare_files::reverse(self, record, request, applied)
                }
            },
            (_, ResourceType::GitCheckout) => prepare_commit::prepare(self, record, request),
            (Destination::Branch(_), ResourceType::FsDirectory) => Err(TargetError::NoBranches),
            (_, ResourceType::FsDirectory) => match &request.change {
                RequestedChange::Result { .. } => prepare_files::prepare(self, record, request),
                RequestedChange::Reverse(applied) => {
                    prepare_files::reverse(self, record, request, applied)
                }
            },
        }?;
        if let Prepared::Ready(intent) = &prepared {
            record.keep_intent(intent)?;
            self.reached(ApplyStep::IntentKept);
        }
        Ok(prepared)
    }

    /// Removes all that is kept of an apply. A repository that is gone needs nothing.
    fn remove(&self, record: &Record, resource: &AbsolutePath) -> TargetResult<()> {
        record.let_go()?;
        let resource = path_of(resource.as_bytes());
        if resource.symlink_metadata().is_ok() {
            match Repository::find(&self.git, resource) {
                Ok(repository) => {
                    let _turn = self.turn(&repository)?;
                    references::delete_in_turn(&repository, &references::apply(record.id))?;
                }
                Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(record.remove()?)
    }
}

impl Targets for LocalTargets {
    fn author(&self, resource: &AbsolutePath) -> TargetResult<Option<Author>> {
        let settings = match Repository::find(&self.git, path_of(resource.as_bytes())) {
            Ok(repository) => repository.settings.clone(),
            Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let author = settings.name.zip(settings.email);
        Ok(author.map(|(name, email)| Author { name, email }))
    }

    fn prepare(&self, request: &ApplyRequest) -> TargetResult<Prepared> {
        let record = Record::of(&self.applies, request.id);
        let _held = self.hold(&record)?;
        if record.has_begun() {
            return Ok(Prepared::Ready(Box::new(record.intent()?)));
        }
        record.let_go()?;
        record.make_anew()?;
        let prepared = self.prepare_anew(&record, request);
        if !matches!(prepared, Ok(Prepared::Ready(_))) {
            record.let_go()?;
            record.remove()?;
        }
        prepared
    }

    fn carry_out(&self, intent: &ApplyIntent) -> TargetResult<Carried> {
        known_version(intent)?;
        let record = Record::of(&self.applies, intent.id);
        let _held = self.hold(&record)?;
        if !record.is_there() {
            return Err(TargetError::Forgotten { id: intent.id });
        }
        if record.intent()? != *intent {
            return Err(TargetError::Superseded { id: intent.id });
        }
        if let Some(applied) = record.done()? {
            return Ok(Carried::Done(applied));
        }
        let carried = match &intent.effect {
            Effect::Commit(effect) => carry_commit::carry_out(self, &record, intent, effect),
            Effect::Files(effect) => carry_files::carry_out(self, &record, intent, effect),
            Effect::Patch(effect) => patch::carry_out(self, &record, effect),
        }?;
        match &carried {
            Carried::Done(applied) => {
                record.note_done(applied)?;
                self.reached(ApplyStep::DoneNoted);
            }
            Carried::Stopped(stopped) if left_nothing(stopped) => record.note_put_back()?,
            Carried::Stopped(_) => {}
        }
        Ok(carried)
    }

    fn take_back(&self, intent: &ApplyIntent) -> TargetResult<()> {
        self.give_up(intent.id, &intent.resource)
    }

    fn give_up(&self, id: ApplyId, resource: &AbsolutePath) -> TargetResult<()> {
        let record = Record::of(&self.applies, id);
        let _held = self.hold(&record)?;
        match record.has_begun() {
            true => Err(TargetError::Begun { id }),
            false => self.remove(&record, resource),
        }
    }

    fn abort(&self, intent: &ApplyIntent) -> TargetResult<Aborted> {
        known_version(intent)?;
        let record = Record::of(&self.applies, intent.id);
        let _held = self.hold(&record)?;
        abort::abort(self, &record, intent)
    }

    fn list(&self) -> TargetResult<Vec<ApplyId>> {
        let mut ids = BTreeSet::new();
        for entry in std::fs::read_dir(&self.applies).map_err(failed(&self.applies))? {
            let entry = entry.map_err(failed(&self.applies))?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let name = name.strip_suffix(".lock").unwrap_or(name);
            ids.extend(name.parse::<ApplyId>().ok());
        }
        Ok(ids.into_iter().collect())
    }

    fn forget(&self, id: ApplyId) -> TargetResult<()> {
        let record = Record::of(&self.applies, id);
        let _held = self.hold(&record)?;
        match record.intent() {
            Ok(intent) => self.remove(&record, &intent.resource),
            // Its intent is the first thing that goes, and what it pinned went before.
            Err(TargetError::Forgotten { .. }) => {
                record.let_go()?;
                Ok(record.remove()?)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether all places could be looked at, and nothing of ours was in them.
fn left_nothing(stopped: &Stopped) -> bool {
    let is_out_of_sight = |conflict: &Conflict| {
        matches!(
            conflict.reason,
            ConflictReason::Missing
                | ConflictReason::SwitchedAway { .. }
                | ConflictReason::KeptAside { .. }
        )
    };
    stopped.written.is_empty() && !stopped.conflicts.iter().any(is_out_of_sight)
}

fn known_version(intent: &ApplyIntent) -> TargetResult<()> {
    match intent.version {
        ApplyIntent::VERSION => Ok(()),
        found => Err(TargetError::Version {
            id: intent.id,
            found,
        }),
    }
}
