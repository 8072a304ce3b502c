//! Locks several targets at once, before anything is decided about them.
//!
//! Locks are acquired in the order of their lock files, so two applies cannot deadlock. Then git's
//! own locks are taken and everything is checked, so a conflict in one target is known before any
//! other target is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

use cleveragents_domain::ResourceType;
use cleveragents_domain::id::ApplyId;
use cleveragents_ports::targets::{
    ApplyEffect, ApplyIntent, CommitEffect, CommitOutcome, Conflict, ConflictReason, LockOutcome,
    TargetError, TargetLocks, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchState};
use crate::apply::commit_branch::{CommitLocks, CommitRun, LockFailure};
use crate::apply::record::LocalApplyRecord;
use crate::apply::{commit_files, patch};
use crate::files::path_from_bytes;
use crate::references::lock_file_path;
use crate::repository::UserRepository;

/// The target of an intent, and the lock that serialises our processes there.
#[derive(Debug, Clone)]
pub(crate) struct IntentTarget {
    pub(crate) repository: Option<UserRepository>,
    pub(crate) lock_file: Option<PathBuf>,
}

impl IntentTarget {
    pub(crate) fn find(targets: &LocalTargets, intent: &ApplyIntent) -> TargetResult<Self> {
        let root = match &intent.effect {
            ApplyEffect::Patch(_) => {
                return Ok(Self {
                    repository: None,
                    lock_file: None,
                });
            }
            ApplyEffect::Files(effect) => path_from_bytes(effect.root.as_bytes()),
            ApplyEffect::Commit(_) => path_from_bytes(intent.resource.as_bytes()),
        };
        // Serialised with commits, because they change the same files.
        let repository = match intent.resource_type {
            ResourceType::GitCheckout => Some(UserRepository::find(&targets.git, root)?),
            ResourceType::FsDirectory => None,
        };
        let folder = repository.as_ref().map_or(root, |it| &it.common_dir);
        Ok(Self {
            lock_file: Some(lock_file_path(&targets.locks, folder)),
            repository,
        })
    }
}

/// The locks of several targets.
#[derive(Debug)]
struct LocalLocks {
    targets: LocalTargets,
    parts: BTreeMap<ApplyId, LockedPart>,
    /// Held to the end because a later part may be in the same repository.
    repository_locks: BTreeMap<PathBuf, File>,
}

#[derive(Debug)]
struct LockedPart {
    target: IntentTarget,
    /// `None` if another part has the same branch or index, and for files and patches.
    commit: Option<CommitLocks>,
    /// Keeps other processes from working on this part.
    _record: File,
}

pub(crate) fn lock(targets: &LocalTargets, intents: &[ApplyIntent]) -> TargetResult<LockOutcome> {
    let mut apply_locks = BTreeMap::new();
    // Records are locked before repositories, as in `commit` and `abort`, so the order cannot
    // cycle.
    for intent in intents {
        apply_locks.insert(
            intent.id,
            targets.lock_apply(&LocalApplyRecord::new(&targets.applies, intent.id))?,
        );
    }
    let mut locks = LocalLocks {
        targets: targets.clone(),
        parts: BTreeMap::new(),
        repository_locks: BTreeMap::new(),
    };
    let mut found = Vec::new();
    for intent in intents {
        found.push(IntentTarget::find(targets, intent)?);
    }
    // Sorted, so that all processes acquire the locks in the same order and cannot deadlock.
    let files: BTreeSet<PathBuf> = found.iter().filter_map(|it| it.lock_file.clone()).collect();
    for file in files {
        let lock = targets.lock_wait.acquire(&file)?;
        locks.repository_locks.insert(file, lock);
    }
    let attempt = locks.lock_parts(intents, found, apply_locks);
    if !matches!(&attempt.conflicts, Ok(conflicts) if conflicts.is_empty()) {
        // Marked because we release these locks now; a missing lock must not look like an edit by
        // the user.
        for record in &attempt.records {
            record.mark_paused()?;
        }
    }
    let conflicts = attempt.conflicts?;
    Ok(if conflicts.is_empty() {
        LockOutcome::Held(Box::new(locks))
    } else {
        LockOutcome::Blocked(conflicts)
    })
}

/// The result of locking all parts, or those before an error.
struct LockAttempt {
    /// Parts that were locked, or that could not be locked for now.
    records: Vec<LocalApplyRecord>,
    conflicts: TargetResult<Vec<Conflict>>,
}

type PartLock = Result<Option<CommitLocks>, Vec<Conflict>>;

impl LocalLocks {
    fn lock_parts(
        &mut self,
        intents: &[ApplyIntent],
        found: Vec<IntentTarget>,
        mut apply_locks: BTreeMap<ApplyId, File>,
    ) -> LockAttempt {
        let mut taken = BTreeSet::new();
        let mut records = Vec::new();
        let mut conflicts = Vec::new();
        for (intent, target) in intents.iter().zip(found) {
            let record = LocalApplyRecord::new(&self.targets.applies, intent.id);
            let locked = self.lock_part(&record, intent, &target, &mut taken);
            let is_undone = |more: &[Conflict]| more.iter().any(|it| it.reason.is_final());
            // The record must keep the information that the user undid the change.
            if !matches!(&locked, Ok(Err(more)) if is_undone(more)) {
                records.push(record);
            }
            match locked {
                Err(error) => {
                    let conflicts = Err(error);
                    return LockAttempt { records, conflicts };
                }
                Ok(Err(more)) => conflicts.extend(more),
                Ok(Ok(commit)) => {
                    if let Some(hold) = apply_locks.remove(&intent.id) {
                        let part = LockedPart {
                            target,
                            commit,
                            _record: hold,
                        };
                        self.parts.insert(intent.id, part);
                    }
                }
            }
        }
        let conflicts = Ok(conflicts);
        LockAttempt { records, conflicts }
    }

    fn lock_part(
        &self,
        record: &LocalApplyRecord,
        intent: &ApplyIntent,
        target: &IntentTarget,
        taken: &mut BTreeSet<PathBuf>,
    ) -> TargetResult<PartLock> {
        // Another process may have prepared the apply again since this intent was stored.
        if record.intent()? != *intent {
            return Err(TargetError::Superseded { id: intent.id });
        }
        if record.read_done()?.is_some() {
            return Ok(Ok(None));
        }
        let conflicts = match &intent.effect {
            ApplyEffect::Commit(effect) => {
                let lock = target.lock_file.as_ref();
                let lock = lock.and_then(|it| self.repository_locks.get(it));
                let (Some(repository), Some(lock)) = (target.repository.clone(), lock) else {
                    return Err(TargetError::NoBranches);
                };
                let run = CommitRun {
                    targets: &self.targets,
                    record,
                    intent,
                    effect,
                    repository,
                };
                return lock_commit(&run, lock, taken);
            }
            ApplyEffect::Files(effect) => {
                commit_files::find_conflicts(&self.targets, record, intent, effect)?
            }
            ApplyEffect::Patch(effect) => patch::find_conflicts(record, effect)?,
        };
        Ok(if conflicts.is_empty() {
            Ok(None)
        } else {
            Err(conflicts)
        })
    }
}

/// Locks everything that the commit changes, unless a part locked before has some of it.
fn lock_commit(
    run: &CommitRun<'_>,
    lock: &File,
    taken: &mut BTreeSet<PathBuf>,
) -> TargetResult<PartLock> {
    let (effect, repository) = (run.effect, &run.repository);
    let mut needed = vec![match &effect.reference {
        Some(reference) => repository.common_dir.join(reference),
        // Each working tree has a `HEAD` of its own.
        None => repository.git_dir.join("HEAD"),
    }];
    needed.extend(
        effect
            .checkouts
            .iter()
            .map(|it| path_from_bytes(it.git_dir.as_bytes()).to_owned()),
    );
    if needed.iter().any(|it| taken.contains(it)) {
        // Locked later, when the other part has released the branch or index.
        return Ok(Ok(None));
    }
    taken.extend(needed);
    let state = match branches::branch_state(repository, effect)? {
        BranchState::Old => match run.lock_all(lock)? {
            Ok(locks) => return Ok(Ok(Some(locks))),
            Err(LockFailure::Conflicts(conflicts, _)) => return Ok(Err(conflicts)),
            Err(LockFailure::Branch(state)) => state,
        },
        state => state,
    };
    Ok(match state {
        // The branch already has the commit; `commit` will detect that.
        BranchState::New => Ok(None),
        state => Err(vec![moved_conflict(effect, state)]),
    })
}

impl TargetLocks for LocalLocks {
    fn commit(&mut self, intent: &ApplyIntent) -> TargetResult<CommitOutcome> {
        let superseded = TargetError::Superseded { id: intent.id };
        let part = self.parts.remove(&intent.id).ok_or(superseded)?;
        let record = LocalApplyRecord::new(&self.targets.applies, intent.id);
        if let Some(applied) = record.read_done()? {
            return Ok(CommitOutcome::Done(applied));
        }
        let lock = part.target.lock_file.as_ref();
        let lock = lock.and_then(|it| self.repository_locks.get(it));
        let outcome = match (part.commit, &intent.effect, &part.target.repository) {
            (Some(locks), ApplyEffect::Commit(effect), Some(repository)) => {
                let run = CommitRun {
                    targets: &self.targets,
                    record: &record,
                    intent,
                    effect,
                    repository: repository.clone(),
                };
                run.commit_locked(locks)
            }
            _ => self
                .targets
                .commit_target(&record, intent, part.target, lock),
        };
        self.targets.record_outcome(&record, intent, outcome)
    }
}

fn moved_conflict(effect: &CommitEffect, state: BranchState) -> Conflict {
    let nothing = || "no commit".to_owned();
    let found = match state {
        BranchState::Moved(found) => found,
        BranchState::Old | BranchState::New => effect.old.clone(),
    };
    Conflict {
        path: None,
        place: None,
        reason: ConflictReason::Moved {
            reference: branches::display_name(effect.reference.as_deref()),
            expected: effect.old.clone().unwrap_or_else(nothing),
            found: found.unwrap_or_else(nothing),
        },
    }
}
