//! Applies the result of a plan to the user's repository or folder.
//!
//! Everything is computed in a private store ([`apply_store`]) and laid out as files ([`staging`])
//! before the user's data changes. Each path is then written by compare-and-swap ([`path_writer`]),
//! so a first run and the recovery of a killed run share the code. Git writes neither the user's
//! files nor the index: a killed git, or one that outlives us, would leave both in an unrecorded
//! state. Start reading at [`LocalTargets`], then `prepare_commit` and `commit_branch`.

mod abort;
mod apply_store;
mod branches;
mod checkouts;
mod commit_branch;
mod commit_files;
mod forbidden_changes;
mod index;
mod json_file;
mod kept_edits;
mod lock_wait;
mod locking;
mod own_folders;
mod pack_record;
mod patch;
mod path_inspector;
mod path_writer;
mod prepare_commit;
mod prepare_files;
mod rebase;
mod rebase_folder;
mod record;
mod ref_lock_record;
mod ref_transaction;
mod sparse;
mod staging;
mod steps;
mod user_changes;
mod written_masks;

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use cleveragents_domain::id::{ApplyId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{
    ApplyEffect, ApplyIntent, ApplyRequest, ApplyTargets, Author, CommitOutcome, Conflict,
    ConflictReason, Destination, LockOutcome, MissingTargetPolicy, PrepareOutcome, RebaseRequest,
    RequestedChange, StoppedCommit, TargetAbortOutcome, TargetError, TargetRebase, TargetResult,
};

use crate::files::{create_private_folder, io_error, path_from_bytes, remove};
use crate::filters::AllowedFilters;
use crate::git::{Git, GitSettings};
use crate::layout::{Layout, Marker};
use crate::references;
use crate::repository::UserRepository;
use crate::sandbox::LocalSandbox;
use index::IndexLock;
use lock_wait::LockWait;
use locking::IntentTarget;
use record::LocalApplyRecord;

pub use steps::{ApplyStep, NoWatcher, Watcher};

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
    /// Opens the targets. Apply records are in `applies/` of the data directory; sandboxes and
    /// locks are shared with `LocalSandboxes`. Fails if git is too old.
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
            path.canonicalize().map_err(io_error(&path))
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

    /// Allows plans to change files with these filters, in the form that git stores.
    #[must_use]
    pub fn with_allowed_filters(mut self, filters: impl IntoIterator<Item = String>) -> Self {
        self.git.allowed = AllowedFilters::new(filters);
        self
    }

    /// For recovery of other processes' work: fails instead of waiting for a held lock.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.lock_wait = LockWait::Never;
        self
    }

    fn reached(&self, step: ApplyStep) {
        self.watcher.reached(step);
    }

    /// Opens the sandbox that contains a result.
    fn open_sandbox(&self, id: SandboxId) -> SandboxResult<LocalSandbox> {
        let marker = Marker::read(&self.sandboxes, id)?;
        let marker = marker.ok_or(SandboxError::NotFound { id })?;
        let layout = Layout::new(&self.sandboxes, id);
        let sandbox = LocalSandbox::new(&self.git, layout, marker, &self.locks)?;
        sandbox.store.seal()?;
        Ok(sandbox)
    }

    fn prepare_new(
        &self,
        record: &LocalApplyRecord,
        request: &ApplyRequest,
    ) -> TargetResult<PrepareOutcome> {
        // Masks are checked before anything is staged: a mask must never reach a file of the user.
        let masks = written_masks::find_written_masks(self, request)?;
        if !masks.is_empty() {
            return Ok(PrepareOutcome::Blocked(masks));
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
        // The intent is written last, so a record with an intent is complete (law 9).
        if let PrepareOutcome::Ready(intent) = &prepared {
            record.write_intent(intent)?;
            self.reached(ApplyStep::IntentWritten);
        }
        Ok(prepared)
    }

    /// Acquires the lock of the target and commits.
    fn lock_and_commit(
        &self,
        record: &LocalApplyRecord,
        intent: &ApplyIntent,
    ) -> TargetResult<CommitOutcome> {
        let target = IntentTarget::find(self, intent)?;
        let lock = match &target.lock_file {
            Some(path) => Some(self.lock_wait.acquire(path)?),
            None => None,
        };
        self.commit_target(record, intent, target, lock.as_ref())
    }

    fn commit_target(
        &self,
        record: &LocalApplyRecord,
        intent: &ApplyIntent,
        target: IntentTarget,
        lock: Option<&File>,
    ) -> TargetResult<CommitOutcome> {
        match (&intent.effect, target.repository, lock) {
            (ApplyEffect::Commit(effect), Some(repository), Some(lock)) => {
                let run = commit_branch::CommitRun {
                    targets: self,
                    record,
                    intent,
                    effect,
                    repository,
                };
                commit_branch::commit(&run, lock)
            }
            (ApplyEffect::Commit(_), ..) => Err(TargetError::NoBranches),
            (ApplyEffect::Files(effect), ..) => commit_files::commit(self, record, intent, effect),
            (ApplyEffect::Patch(effect), ..) => patch::commit(self, record, effect),
        }
    }

    /// Stores the outcome of an intent in its record.
    fn record_outcome(
        &self,
        record: &LocalApplyRecord,
        intent: &ApplyIntent,
        outcome: TargetResult<CommitOutcome>,
    ) -> TargetResult<CommitOutcome> {
        let outcome = match outcome {
            // A target that is gone is an outcome, not an error to be retried by every later
            // command.
            Err(_) if self.is_gone(intent) => target_gone_outcome(intent),
            Err(error) => {
                record.mark_paused()?;
                return Err(error);
            }
            Ok(outcome) => outcome,
        };
        match &outcome {
            CommitOutcome::Done(applied) => {
                record.mark_done(applied)?;
                self.reached(ApplyStep::DoneRecorded);
                clean_up(record, intent);
            }
            // Only if nothing was written may the apply be prepared again from the start.
            CommitOutcome::Stopped(stopped) if has_written_nothing(stopped) => {
                record.mark_restored()?
            }
            CommitOutcome::Stopped(_) => record.mark_paused()?,
        }
        Ok(outcome)
    }

    /// Releases the locks in a repository that a killed call may have left.
    fn release_locks(&self, record: &LocalApplyRecord, intent: &ApplyIntent) -> TargetResult<()> {
        clean_up(record, intent);
        let ApplyEffect::Commit(effect) = &intent.effect else {
            return Ok(());
        };
        for checkout in &effect.checkouts {
            IndexLock::release_leftover(path_from_bytes(checkout.git_dir.as_bytes()), intent)?;
        }
        if record.ref_locks.read()?.is_none() || self.is_gone(intent) {
            return Ok(());
        }
        let resource = path_from_bytes(intent.resource.as_bytes());
        let repository = UserRepository::find(&self.git, resource)?;
        ref_transaction::release_leftover(&record.ref_locks, &repository, effect)
    }

    /// Returns whether the repository or folder that an intent changes no longer exists.
    fn is_gone(&self, intent: &ApplyIntent) -> bool {
        let resource = path_from_bytes(intent.resource.as_bytes());
        let is_repository = intent.resource_type == ResourceType::GitCheckout;
        match &intent.effect {
            ApplyEffect::Patch(_) => false,
            _ if !resource.is_dir() => true,
            _ if !is_repository => false,
            _ => matches!(
                UserRepository::find(&self.git, resource),
                Err(SandboxError::NotARepository { .. })
            ),
        }
    }

    /// Removes everything stored for an apply. A repository that no longer exists needs no cleanup.
    fn remove(&self, record: &LocalApplyRecord, resource: &AbsolutePath) -> TargetResult<()> {
        // The pin is removed before the record, because without it no later call would know of the
        // pin.
        self.unpin(record, resource)?;
        Ok(record.remove()?)
    }

    /// Removes the locks, the ref and the objects of an apply from the user's repository.
    fn unpin(&self, record: &LocalApplyRecord, resource: &AbsolutePath) -> TargetResult<()> {
        let resource = path_from_bytes(resource.as_bytes());
        if resource.symlink_metadata().is_ok() {
            match UserRepository::find(&self.git, resource) {
                Ok(repository) => {
                    let _lock = self.lock_repository(&repository)?;
                    if let Ok(intent) = record.intent() {
                        self.release_locks(record, &intent)?;
                    }
                    references::delete_locked(
                        &self.locks,
                        &repository,
                        &references::apply_ref(record.id),
                    )?;
                }
                Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(record.pack.withdraw()?)
    }
}

/// Number of targets prepared at the same time.
const MAX_PARALLEL: usize = 4;

/// Prepares targets in parallel, because most of the time is spent waiting for git.
fn prepare_parallel(
    targets: &LocalTargets,
    requests: &[ApplyRequest],
) -> Vec<TargetResult<PrepareOutcome>> {
    if let [request] = requests {
        return vec![targets.prepare(request)];
    }
    thread::scope(|scope| {
        let prepare = |request| scope.spawn(move || targets.prepare(request));
        let threads: Vec<_> = requests.iter().map(prepare).collect();
        let results = threads.into_iter().map(thread::ScopedJoinHandle::join);
        results
            .map(|one| one.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

impl ApplyTargets for LocalTargets {
    fn author(&self, resource: &AbsolutePath) -> TargetResult<Option<Author>> {
        let settings = match UserRepository::find(&self.git, path_from_bytes(resource.as_bytes())) {
            Ok(repository) => repository.settings.clone(),
            Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let author = settings.name.zip(settings.email);
        Ok(author.map(|(name, email)| Author { name, email }))
    }

    fn prepare_all(&self, requests: &[ApplyRequest]) -> Vec<TargetResult<PrepareOutcome>> {
        let at_once = if self.watcher.allows_parallel() {
            MAX_PARALLEL
        } else {
            1
        };
        let some = requests.chunks(at_once);
        some.flat_map(|some| prepare_parallel(self, some)).collect()
    }

    fn prepare(&self, request: &ApplyRequest) -> TargetResult<PrepareOutcome> {
        let record = LocalApplyRecord::new(&self.applies, request.id);
        let _lock = self.lock_apply(&record)?;
        // An apply that has begun keeps its intent: a new one would not match what is already
        // written.
        if record.has_begun() {
            return Ok(PrepareOutcome::Ready(Box::new(record.intent()?)));
        }
        // A killed preparation may have installed its pack already; a second one must not leave
        // two.
        if record.pack.exists() {
            self.unpin(&record, &request.resource)?;
        }
        record.recreate()?;
        let prepared = self.prepare_new(&record, request);
        if !matches!(prepared, Ok(PrepareOutcome::Ready(_))) {
            if record.pack.exists() {
                self.unpin(&record, &request.resource)?;
            }
            record.remove()?;
        }
        prepared
    }

    fn commit(&self, intent: &ApplyIntent) -> TargetResult<CommitOutcome> {
        check_version(intent)?;
        let record = LocalApplyRecord::new(&self.applies, intent.id);
        let _lock = self.lock_apply(&record)?;
        if !record.exists() {
            return Err(TargetError::Forgotten { id: intent.id });
        }
        if record.intent()? != *intent {
            return Err(TargetError::Superseded { id: intent.id });
        }
        if let Some(applied) = record.read_done()? {
            clean_up(&record, intent);
            return Ok(CommitOutcome::Done(applied));
        }
        let outcome = self.lock_and_commit(&record, intent);
        self.record_outcome(&record, intent, outcome)
    }

    fn lock(&self, intents: &[ApplyIntent]) -> TargetResult<LockOutcome> {
        locking::lock(self, intents)
    }

    fn discard_prepared(&self, intent: &ApplyIntent) -> TargetResult<()> {
        self.discard_orphaned(intent.id, &intent.resource)
    }

    fn discard_orphaned(&self, id: ApplyId, resource: &AbsolutePath) -> TargetResult<()> {
        let record = LocalApplyRecord::new(&self.applies, id);
        let _lock = self.lock_apply(&record)?;
        if record.has_begun() {
            Err(TargetError::AlreadyStarted { id })
        } else {
            self.remove(&record, resource)
        }
    }

    fn abort(
        &self,
        intent: &ApplyIntent,
        if_gone: MissingTargetPolicy,
    ) -> TargetResult<TargetAbortOutcome> {
        check_version(intent)?;
        let record = LocalApplyRecord::new(&self.applies, intent.id);
        let _lock = self.lock_apply(&record)?;
        abort::abort(self, &record, intent, if_gone)
    }

    fn rebase(&self, request: &RebaseRequest) -> TargetResult<TargetRebase> {
        rebase::rebase(self, request)
    }

    fn list(&self) -> TargetResult<Vec<ApplyId>> {
        let mut ids = BTreeSet::new();
        for entry in std::fs::read_dir(&self.applies).map_err(io_error(&self.applies))? {
            let entry = entry.map_err(io_error(&self.applies))?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            // The lock file of a removed record is listed as well, so that it can be forgotten.
            let name = name.strip_suffix(".lock").unwrap_or(name);
            ids.extend(name.parse::<ApplyId>().ok());
        }
        Ok(ids.into_iter().collect())
    }

    fn forget(&self, id: ApplyId) -> TargetResult<()> {
        let record = LocalApplyRecord::new(&self.applies, id);
        let _lock = self.lock_apply(&record)?;
        match record.intent() {
            Ok(intent) => self.remove(&record, &intent.resource),
            // The intent is removed first, and its pin before that, so only the rest is left to
            // remove.
            Err(TargetError::Forgotten { .. }) => {
                record.pack.withdraw()?;
                Ok(record.remove()?)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns whether every location could be inspected and contained nothing of ours.
fn has_written_nothing(stopped: &StoppedCommit) -> bool {
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

/// Removes what a completed apply no longer needs. Called after the apply is recorded as done, so a
/// kill in between loses nothing. Files that cannot be removed now are removed when the apply is
/// forgotten.
fn clean_up(record: &LocalApplyRecord, intent: &ApplyIntent) {
    let ours = |name: &str| format!(".agents-{}-{name}", record.id);
    match &intent.effect {
        ApplyEffect::Files(_) => {
            let _ = remove(&record.store());
        }
        ApplyEffect::Commit(effect) => {
            for checkout in &effect.checkouts {
                let git_dir = path_from_bytes(checkout.git_dir.as_bytes());
                let _ = remove(&git_dir.join(ours("lock")));
                let _ = remove(&git_dir.join(ours("index")));
            }
        }
        ApplyEffect::Patch(effect) => {
            if let Some(folder) = path_from_bytes(effect.file.as_bytes()).parent() {
                let _ = remove(&folder.join(ours("patch")));
            }
        }
    }
}

fn target_gone_outcome(intent: &ApplyIntent) -> CommitOutcome {
    CommitOutcome::Stopped(StoppedCommit {
        conflicts: vec![Conflict {
            path: None,
            place: Some(intent.resource.clone()),
            reason: ConflictReason::Gone,
        }],
        written: Vec::new(),
    })
}

fn check_version(intent: &ApplyIntent) -> TargetResult<()> {
    match intent.version {
        ApplyIntent::VERSION => Ok(()),
        found => Err(TargetError::Version {
            id: intent.id,
            found,
        }),
    }
}
