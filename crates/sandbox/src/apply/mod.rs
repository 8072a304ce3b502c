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
mod locking;
mod masks;
mod patch;
mod place;
mod prepare_commit;
mod prepare_files;
mod rebase;
mod record;
mod ref_transaction;
mod sparse;
mod staging;
mod standing;
mod steps;
mod turns;
mod user_moves;
mod workbench;

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use cleveragents_domain::id::{ApplyId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{
    Aborted, ApplyIntent, ApplyRequest, Author, Carried, Conflict, ConflictReason, Destination,
    Effect, IfGone, Locked, Prepared, Rebase, RebaseRequest, RequestedChange, Stopped, TargetError,
    TargetResult, Targets,
};

use crate::files::{create_private_folder, failed, path_of, remove};
use crate::filters::AllowedFilters;
use crate::git::{Git, GitSettings};
use crate::layout::{Layout, Marker};
use crate::references;
use crate::repository::Repository;
use crate::sandbox::LocalSandbox;
use index::IndexLock;
use locking::Target;
use record::Record;
use turns::LockWait;

pub use steps::{ApplyStep, Unwatched, Watcher};

/// The user's repositories and folders on this machine.
#[derive(Debug, Clone)]
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
            lock_wait: LockWait::Bounded,
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

    /// Carries out, once it is our turn.
    fn carry_out_in_turn(&self, record: &Record, intent: &ApplyIntent) -> TargetResult<Carried> {
        let target = Target::find(self, intent)?;
        let turn = match &target.turn_file {
            Some(path) => Some(self.lock_wait.take(path)?),
            None => None,
        };
        self.carry_out_at(record, intent, target, turn.as_ref())
    }

    fn carry_out_at(
        &self,
        record: &Record,
        intent: &ApplyIntent,
        target: Target,
        turn: Option<&File>,
    ) -> TargetResult<Carried> {
        match (&intent.effect, target.repository, turn) {
            (Effect::Commit(effect), Some(repository), Some(turn)) => {
                let run = carry_commit::Run {
                    targets: self,
                    record,
                    intent,
                    effect,
                    repository,
                };
                carry_commit::carry_out(&run, turn)
            }
            (Effect::Commit(_), ..) => Err(TargetError::NoBranches),
            (Effect::Files(effect), ..) => carry_files::carry_out(self, record, intent, effect),
            (Effect::Patch(effect), ..) => patch::carry_out(self, record, effect),
        }
    }

    /// Writes down what became of an intent.
    fn conclude(
        &self,
        record: &Record,
        intent: &ApplyIntent,
        carried: TargetResult<Carried>,
    ) -> TargetResult<Carried> {
        let carried = match carried {
            Err(_) if self.is_gone(intent) => gone(intent),
            Err(error) => {
                record.note_paused()?;
                return Err(error);
            }
            Ok(carried) => carried,
        };
        match &carried {
            Carried::Done(applied) => {
                record.note_done(applied)?;
                self.reached(ApplyStep::DoneNoted);
                clean_up(record, intent);
            }
            Carried::Stopped(stopped) if left_nothing(stopped) => record.note_put_back()?,
            Carried::Stopped(_) => record.note_paused()?,
        }
        Ok(carried)
    }

    /// Releases the locks in a repository that a killed call may have left.
    fn release_locks(&self, record: &Record, intent: &ApplyIntent) -> TargetResult<()> {
        clean_up(record, intent);
        let Effect::Commit(effect) = &intent.effect else {
            return Ok(());
        };
        for checkout in &effect.checkouts {
            IndexLock::release_left(path_of(checkout.git_dir.as_bytes()), intent)?;
        }
        if record.ref_locks()?.is_none() || self.is_gone(intent) {
            return Ok(());
        }
        let resource = path_of(intent.resource.as_bytes());
        let repository = Repository::find(&self.git, resource)?;
        ref_transaction::release_left(record, &repository, effect)
    }

    /// Whether the repository or folder that an intent changes is not there any more.
    fn is_gone(&self, intent: &ApplyIntent) -> bool {
        let resource = path_of(intent.resource.as_bytes());
        let is_repository = intent.resource_type == ResourceType::GitCheckout;
        match &intent.effect {
            Effect::Patch(_) => false,
            _ if !resource.is_dir() => true,
            _ if !is_repository => false,
            _ => matches!(
                Repository::find(&self.git, resource),
                Err(SandboxError::NotARepository { .. })
            ),
        }
    }

    /// Removes all that is kept of an apply. A repository that is gone needs nothing.
    fn remove(&self, record: &Record, resource: &AbsolutePath) -> TargetResult<()> {
        self.unpin(record, resource)?;
        Ok(record.remove()?)
    }

    /// Removes what an apply has in the user's repository: locks, its ref and its objects.
    fn unpin(&self, record: &Record, resource: &AbsolutePath) -> TargetResult<()> {
        let resource = path_of(resource.as_bytes());
        if resource.symlink_metadata().is_ok() {
            match Repository::find(&self.git, resource) {
                Ok(repository) => {
                    let _turn = self.turn(&repository)?;
                    if let Ok(intent) = record.intent() {
                        self.release_locks(record, &intent)?;
                    }
                    references::delete_in_turn(
                        &self.locks,
                        &repository,
                        &references::apply(record.id),
                    )?;
                }
                Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(record.withdraw_pack()?)
    }
}

/// How many targets are prepared at the same time.
const AT_ONCE: usize = 4;

/// Prepares targets beside each other: most of it is waiting for git.
fn prepare_at_once(
    targets: &LocalTargets,
    requests: &[ApplyRequest],
) -> Vec<TargetResult<Prepared>> {
    if let [request] = requests {
        return vec![targets.prepare(request)];
    }
    thread::scope(|scope| {
        let prepare = |request| scope.spawn(move || targets.prepare(request));
        let begun: Vec<_> = requests.iter().map(prepare).collect();
        let ended = begun.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|one| one.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
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

    fn prepare_all(&self, requests: &[ApplyRequest]) -> Vec<TargetResult<Prepared>> {
        let at_once = match self.watcher.allows_parallel() {
            true => AT_ONCE,
            false => 1,
        };
        let some = requests.chunks(at_once);
        some.flat_map(|some| prepare_at_once(self, some)).collect()
    }

    fn prepare(&self, request: &ApplyRequest) -> TargetResult<Prepared> {
        let record = Record::of(&self.applies, request.id);
        let _held = self.hold(&record)?;
        if record.has_begun() {
            return Ok(Prepared::Ready(Box::new(record.intent()?)));
        }
        if record.has_pack() {
            self.unpin(&record, &request.resource)?;
        }
        record.make_anew()?;
        let prepared = self.prepare_anew(&record, request);
        if !matches!(prepared, Ok(Prepared::Ready(_))) {
            if record.has_pack() {
                self.unpin(&record, &request.resource)?;
            }
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
            clean_up(&record, intent);
            return Ok(Carried::Done(applied));
        }
        let carried = self.carry_out_in_turn(&record, intent);
        self.conclude(&record, intent, carried)
    }

    fn lock(&self, intents: &[ApplyIntent]) -> TargetResult<Locked> {
        locking::lock(self, intents)
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

    fn abort(&self, intent: &ApplyIntent, if_gone: IfGone) -> TargetResult<Aborted> {
        known_version(intent)?;
        let record = Record::of(&self.applies, intent.id);
        let _held = self.hold(&record)?;
        abort::abort(self, &record, intent, if_gone)
    }

    fn rebase(&self, request: &RebaseRequest) -> TargetResult<Rebase> {
        rebase::rebase(self, request)
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
                record.withdraw_pack()?;
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
                | ConflictReason::Gone
                | ConflictReason::SwitchedAway { .. }
                | ConflictReason::KeptAside { .. }
        )
    };
    stopped.written.is_empty() && !stopped.conflicts.iter().any(is_out_of_sight)
}

/// Removes what an apply that is done needs no more. It comes after the note that it is done, so a
/// kill in between costs nothing; what cannot be removed goes when the apply is forgotten.
fn clean_up(record: &Record, intent: &ApplyIntent) {
    let ours = |name: &str| format!(".agents-{}-{name}", record.id);
    match &intent.effect {
        Effect::Files(_) => {
            let _ = remove(&record.store());
        }
        Effect::Commit(effect) => {
            for checkout in &effect.checkouts {
                let git_dir = path_of(checkout.git_dir.as_bytes());
                let _ = remove(&git_dir.join(ours("lock")));
                let _ = remove(&git_dir.join(ours("index")));
            }
        }
        Effect::Patch(effect) => {
            if let Some(folder) = path_of(effect.file.as_bytes()).parent() {
                let _ = remove(&folder.join(ours("patch")));
            }
        }
    }
}

fn gone(intent: &ApplyIntent) -> Carried {
    Carried::Stopped(Stopped {
        conflicts: vec![Conflict {
            path: None,
            place: Some(intent.resource.clone()),
            reason: ConflictReason::Gone,
        }],
        written: Vec::new(),
    })
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
