//! Several targets locked at once, before anything is decided about them.
//!
//! Turns are taken in the order of their lock files, so two applies never wait for each other. Then
//! git's own locks are taken and everything is looked at, so what stands in the way of one target
//! is known while nothing of any other is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

use cleveragents_domain::ResourceType;
use cleveragents_domain::id::ApplyId;
use cleveragents_engine::ports::targets::{
    ApplyIntent, Carried, CommitEffect, Conflict, ConflictReason, Effect, Locked, TargetError,
    TargetLocks, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchStanding};
use crate::apply::carry_commit::{CommitLocks, NotLocked, Run};
use crate::apply::record::Record;
use crate::apply::{carry_files, patch};
use crate::files::path_of;
use crate::references::turn_file;
use crate::repository::Repository;

/// Where an intent is carried out, and the lock by which our processes take turns there.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) repository: Option<Repository>,
    pub(crate) turn_file: Option<PathBuf>,
}

impl Target {
    pub(crate) fn find(targets: &LocalTargets, intent: &ApplyIntent) -> TargetResult<Self> {
        let root = match &intent.effect {
            Effect::Patch(_) => {
                return Ok(Self {
                    repository: None,
                    turn_file: None,
                });
            }
            Effect::Files(effect) => path_of(effect.root.as_bytes()),
            Effect::Commit(_) => path_of(intent.resource.as_bytes()),
        };
        // Files of a working tree change in turn with commits of the same files.
        let repository = match intent.resource_type {
            ResourceType::GitCheckout => Some(Repository::find(&targets.git, root)?),
            ResourceType::FsDirectory => None,
        };
        let folder = repository.as_ref().map_or(root, |it| &it.common_dir);
        Ok(Self {
            turn_file: Some(turn_file(&targets.locks, folder)),
            repository,
        })
    }
}

/// The locks of several targets.
#[derive(Debug)]
struct LocalLocks {
    targets: LocalTargets,
    parts: BTreeMap<ApplyId, LockedPart>,
    /// Kept to the end: a later part may be in the same repository.
    turns: BTreeMap<PathBuf, File>,
}

#[derive(Debug)]
struct LockedPart {
    target: Target,
    /// Absent where another part has the same branch or index, and of files and patches.
    commit: Option<CommitLocks>,
    /// Nobody else works on this part.
    _record: File,
}

pub(crate) fn lock(targets: &LocalTargets, intents: &[ApplyIntent]) -> TargetResult<Locked> {
    let mut held = BTreeMap::new();
    for intent in intents {
        held.insert(
            intent.id,
            targets.hold(&Record::of(&targets.applies, intent.id))?,
        );
    }
    let mut locks = LocalLocks {
        targets: targets.clone(),
        parts: BTreeMap::new(),
        turns: BTreeMap::new(),
    };
    let mut found = Vec::new();
    for intent in intents {
        found.push(Target::find(targets, intent)?);
    }
    let files: BTreeSet<PathBuf> = found.iter().filter_map(|it| it.turn_file.clone()).collect();
    for file in files {
        let turn = targets.lock_wait.take(&file)?;
        locks.turns.insert(file, turn);
    }
    let attempt = locks.lock_parts(intents, found, held);
    if !matches!(&attempt.conflicts, Ok(conflicts) if conflicts.is_empty()) {
        // Their locks are released by us now, not by the user after a kill.
        for record in &attempt.records {
            record.note_paused()?;
        }
    }
    let conflicts = attempt.conflicts?;
    Ok(match conflicts.is_empty() {
        true => Locked::Held(Box::new(locks)),
        false => Locked::Blocked(conflicts),
    })
}

/// What came of locking all parts, or those before an error.
struct Attempt {
    /// Those that were locked, or could not be for now.
    records: Vec<Record>,
    conflicts: TargetResult<Vec<Conflict>>,
}

type PartLock = Result<Option<CommitLocks>, Vec<Conflict>>;

impl LocalLocks {
    fn lock_parts(
        &mut self,
        intents: &[ApplyIntent],
        found: Vec<Target>,
        mut held: BTreeMap<ApplyId, File>,
    ) -> Attempt {
        let mut taken = BTreeSet::new();
        let mut records = Vec::new();
        let mut conflicts = Vec::new();
        for (intent, target) in intents.iter().zip(found) {
            let record = Record::of(&self.targets.applies, intent.id);
            let locked = self.lock_part(&record, intent, &target, &mut taken);
            let is_undone = |more: &[Conflict]| more.iter().any(|it| it.reason.is_final());
            // That the user undid it stays on record.
            if !matches!(&locked, Ok(Err(more)) if is_undone(more)) {
                records.push(record);
            }
            match locked {
                Err(error) => {
                    let conflicts = Err(error);
                    return Attempt { records, conflicts };
                }
                Ok(Err(more)) => conflicts.extend(more),
                Ok(Ok(commit)) => {
                    if let Some(hold) = held.remove(&intent.id) {
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
        Attempt { records, conflicts }
    }

    fn lock_part(
        &self,
        record: &Record,
        intent: &ApplyIntent,
        target: &Target,
        taken: &mut BTreeSet<PathBuf>,
    ) -> TargetResult<PartLock> {
        if record.intent()? != *intent {
            return Err(TargetError::Superseded { id: intent.id });
        }
        if record.done()?.is_some() {
            return Ok(Ok(None));
        }
        let conflicts = match &intent.effect {
            Effect::Commit(effect) => {
                return self.lock_commit(record, intent, (effect, target), taken);
            }
            Effect::Files(effect) => carry_files::look(&self.targets, record, intent, effect)?,
            Effect::Patch(effect) => patch::look(effect)?,
        };
        Ok(match conflicts.is_empty() {
            true => Ok(None),
            false => Err(conflicts),
        })
    }

    fn lock_commit(
        &self,
        record: &Record,
        intent: &ApplyIntent,
        (effect, target): (&CommitEffect, &Target),
        taken: &mut BTreeSet<PathBuf>,
    ) -> TargetResult<PartLock> {
        let turn = target.turn_file.as_ref().and_then(|it| self.turns.get(it));
        let (Some(repository), Some(turn)) = (target.repository.clone(), turn) else {
            return Err(TargetError::NoBranches);
        };
        let mut wanted = vec![match &effect.reference {
            Some(reference) => repository.common_dir.join(reference),
            // Each working tree has one of its own.
            None => repository.git_dir.join("HEAD"),
        }];
        wanted.extend(
            effect
                .checkouts
                .iter()
                .map(|it| path_of(it.git_dir.as_bytes()).to_owned()),
        );
        if wanted.iter().any(|it| taken.contains(it)) {
            // It is locked when the other part is done.
            return Ok(Ok(None));
        }
        taken.extend(wanted);
        let run = Run {
            targets: &self.targets,
            record,
            intent,
            effect,
            repository,
        };
        let standing = match branches::standing(&run.repository, effect)? {
            BranchStanding::Old => match run.lock_all(turn)? {
                Ok(locks) => return Ok(Ok(Some(locks))),
                Err(NotLocked::Conflicts(conflicts, _)) => return Ok(Err(conflicts)),
                Err(NotLocked::Branch(standing)) => standing,
            },
            standing => standing,
        };
        Ok(match standing {
            // The commit is there: carrying out will find it.
            BranchStanding::New => Ok(None),
            standing => Err(vec![moved(effect, standing)]),
        })
    }
}

impl TargetLocks for LocalLocks {
    fn carry_out(&mut self, intent: &ApplyIntent) -> TargetResult<Carried> {
        let superseded = TargetError::Superseded { id: intent.id };
        let part = self.parts.remove(&intent.id).ok_or(superseded)?;
        let record = Record::of(&self.targets.applies, intent.id);
        if let Some(applied) = record.done()? {
            return Ok(Carried::Done(applied));
        }
        let turn = part.target.turn_file.as_ref();
        let turn = turn.and_then(|it| self.turns.get(it));
        let carried = match (part.commit, &intent.effect, &part.target.repository) {
            (Some(locks), Effect::Commit(effect), Some(repository)) => {
                let run = Run {
                    targets: &self.targets,
                    record: &record,
                    intent,
                    effect,
                    repository: repository.clone(),
                };
                run.forward(locks)
            }
            _ => self
                .targets
                .carry_out_at(&record, intent, part.target, turn),
        };
        self.targets.conclude(&record, intent, carried)
    }
}

fn moved(effect: &CommitEffect, standing: BranchStanding) -> Conflict {
    let nothing = || "no commit".to_owned();
    let found = match standing {
        BranchStanding::Elsewhere(found) => found,
        BranchStanding::Old | BranchStanding::New => effect.old.clone(),
    };
    Conflict {
        path: None,
        place: None,
        reason: ConflictReason::Moved {
            reference: branches::shown(effect.reference.as_deref()),
            expected: effect.old.clone().unwrap_or_else(nothing),
            found: found.unwrap_or_else(nothing),
        },
    }
}
