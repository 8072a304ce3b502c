//! Commits to a branch: writes files, index and branch, in this order, under the index locks.
//!
//! Every call checks the branch first. At its old commit: the call proceeds. At the new commit: the
//! apply is done. At any other commit: another program moved it, and our writes are restored on the
//! paths where that commit has the old state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{SandboxError, SandboxResult, TreeId};
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{
    AppliedResult, ApplyIntent, CheckoutEffect, CommitEffect, CommitOutcome, Conflict,
    ConflictReason, PathChange, PathState, StoppedCommit, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchState};
use crate::apply::checkouts::{self, UserWorktree};
use crate::apply::commit_files::{check_all_paths, unlink_drafts, write_all_paths};
use crate::apply::index::{Index, IndexEdit, IndexLock};
use crate::apply::own_folders;
use crate::apply::path_inspector::{Modes, PathChangeState, PathInspector};
use crate::apply::path_writer::PathWriter;
use crate::apply::prepare_commit::removed_paths;
use crate::apply::prepare_files::reverse_changes;
use crate::apply::record::LocalApplyRecord;
use crate::apply::ref_transaction::RefTransaction;
use crate::apply::steps::ApplyStep;
use crate::apply::user_changes::{RepositoryMarks, undone_conflict};
use crate::files::{Sync, path_from_bytes};
use crate::private_dir::PrivateGitDir;
use crate::repository::UserRepository;
use crate::store::{ObjectReader, PrivateStore};
use crate::user_git_command::UserGitCommand;

/// One attempt to commit. The caller must hold the repository lock.
pub(crate) struct CommitRun<'a> {
    pub(crate) targets: &'a LocalTargets,
    pub(crate) record: &'a LocalApplyRecord,
    pub(crate) intent: &'a ApplyIntent,
    pub(crate) effect: &'a CommitEffect,
    pub(crate) repository: UserRepository,
}

/// Path to mode and object id.
pub(super) type CommitEntries = BTreeMap<Vec<u8>, (u32, String)>;

/// A working tree whose index we have locked.
#[derive(Debug)]
pub(super) struct LockedWorktree {
    pub(super) worktree: UserWorktree,
    checkout: CheckoutEffect,
    /// Held until this value is dropped.
    _lock: IndexLock,
}

/// The locks of one commit: every index and the branch, with everything checked under them.
#[derive(Debug)]
pub(crate) struct CommitLocks {
    worktrees: Vec<LockedWorktree>,
    branch: RefTransaction,
}

pub(crate) enum LockFailure {
    Conflicts(Vec<Conflict>, WrittenPaths),
    Branch(BranchState),
}

/// Paths that already have their new content.
type WrittenPaths = Vec<ResourcePath>;

pub(crate) fn commit(run: &CommitRun<'_>, lock: &File) -> TargetResult<CommitOutcome> {
    let state = match branches::branch_state(&run.repository, run.effect)? {
        BranchState::Old => match run.lock_all(lock)? {
            Ok(locks) => return run.commit_locked(locks),
            Err(LockFailure::Conflicts(conflicts, written)) => {
                return Ok(stopped_outcome(conflicts, written));
            }
            Err(LockFailure::Branch(state)) => state,
        },
        state => state,
    };
    run.handle_moved_branch(state, None)
}

impl CommitRun<'_> {
    /// Locks every index and the branch, and checks everything under the locks.
    pub(crate) fn lock_all(&self, lock: &File) -> TargetResult<Result<CommitLocks, LockFailure>> {
        // After a kill the user may have reset or unlocked something; the apply must not overwrite
        // that.
        let undone = self.record.marks().filter(|it| !it.is_untouched());
        if undone.is_some() {
            let worktrees = self.lock_checkouts_on_branch()?;
            for locked in &worktrees {
                self.unlink_drafts(locked)?;
            }
            let written = self.written_paths(&worktrees)?;
            return Ok(Err(LockFailure::Conflicts(
                vec![undone_conflict(self.intent)],
                written,
            )));
        }
        // All conflicts are collected before the result, so that the user sees them at once.
        let mut conflicts = self.find_new_checkouts()?;
        let mut worktrees = Vec::new();
        for checkout in &self.effect.checkouts {
            match self.lock_checkout(checkout)? {
                Ok(locked) => worktrees.push(locked),
                Err(conflict) => conflicts.push(conflict),
            }
        }
        for locked in &worktrees {
            conflicts.extend(checkouts::operations_in_progress(&locked.worktree)?);
            conflicts.extend(self.check_files(locked)?);
            conflicts.extend(self.check_index(locked)?);
        }
        if !conflicts.is_empty() {
            conflicts.sort_unstable();
            let written = self.written_paths(&worktrees)?;
            return Ok(Err(LockFailure::Conflicts(conflicts, written)));
        }
        let (ref_locks, commit) = (&self.record.ref_locks, &self.intent.commit);
        let prepared =
            RefTransaction::prepare(&self.repository, ref_locks, self.effect, commit, lock);
        match prepared? {
            Err(state) => Ok(Err(LockFailure::Branch(state))),
            Ok(branch) => {
                self.targets.reached(ApplyStep::BranchLocked);
                Ok(Ok(CommitLocks { worktrees, branch }))
            }
        }
    }

    /// Writes files, then index, then branch, under their locks.
    pub(crate) fn commit_locked(&self, locks: CommitLocks) -> TargetResult<CommitOutcome> {
        let CommitLocks { worktrees, branch } = locks;
        let git_dirs = self.effect.checkouts.iter();
        let git_dirs: Vec<&Path> = git_dirs
            .map(|it| path_from_bytes(it.git_dir.as_bytes()))
            .collect();
        let reference = self.effect.reference.as_deref();
        let marks = RepositoryMarks::for_commit(&self.repository, reference, &git_dirs);
        let roots = self.effect.checkouts.iter().map(|it| &it.root);
        own_folders::note(self.record, roots, &self.intent.changes)?;
        // Recorded before the first write, so that a kill from here on is detected (law 9).
        self.record.mark_begun(&marks)?;
        self.targets.reached(ApplyStep::Started);
        // The locks do not cover files, so they are checked again right before they are written.
        let mut conflicts = Vec::new();
        for locked in &worktrees {
            conflicts.extend(self.check_files(locked)?);
        }
        for locked in &worktrees {
            if conflicts.is_empty() {
                conflicts.extend(self.write_files(locked)?);
            }
        }
        if !conflicts.is_empty() {
            let written = self.written_paths(&worktrees)?;
            return Ok(stopped_outcome(conflicts, written));
        }
        for locked in &worktrees {
            self.replace_index(locked)?;
        }
        // Git's lock on the branch is held. This check detects programs that ignore the lock.
        match branches::branch_state(&self.repository, self.effect)? {
            BranchState::Old => {
                branch.commit(&self.record.ref_locks, &self.repository, self.effect)?;
                self.targets.reached(ApplyStep::BranchMoved);
                // The indexes are unlocked only after the branch has moved, so that the user's git
                // cannot commit in between.
                drop(worktrees);
                self.targets.reached(ApplyStep::IndexUnlocked);
                self.finish(Some(&self.effect.new))
            }
            state => {
                drop(branch);
                self.handle_moved_branch(state, Some(worktrees))
            }
        }
    }

    /// Handles a branch that is not at its old commit: it has our commit, or another program moved it.
    fn handle_moved_branch(
        &self,
        state: BranchState,
        worktrees: Option<Vec<LockedWorktree>>,
    ) -> TargetResult<CommitOutcome> {
        let found = match state {
            BranchState::New => return self.finish(Some(&self.effect.new)),
            BranchState::Old => self.effect.old.clone(),
            BranchState::Moved(found) => found,
        };
        let worktrees = match worktrees {
            Some(worktrees) => worktrees,
            None if self.record.has_begun() => self.lock_checkouts_on_branch()?,
            None => Vec::new(),
        };
        self.restore_after_move(found, worktrees)
    }

    /// Removes leftovers of a killed call and reports where the result is.
    fn finish(&self, commit: Option<&str>) -> TargetResult<CommitOutcome> {
        for checkout in &self.effect.checkouts {
            let git_dir = path_from_bytes(checkout.git_dir.as_bytes());
            IndexLock::release_leftover(git_dir, self.intent)?;
        }
        Ok(CommitOutcome::Done(AppliedResult {
            commit: commit.map(str::to_owned),
            reference: self.effect.reference.clone(),
            file: None,
        }))
    }

    /// Finds working trees and rebases that started using the branch after the apply was prepared.
    fn find_new_checkouts(&self) -> SandboxResult<Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let reference = self.effect.reference.as_deref();
        let git = &self.targets.git;
        let worktrees =
            checkouts::find_checkouts(git, &self.repository, reference, &mut conflicts)?;
        for worktree in worktrees {
            let git_dir = checkouts::to_absolute_path(&worktree.repository.git_dir)?;
            let is_known = |it: &CheckoutEffect| it.git_dir == git_dir;
            if !self.effect.checkouts.iter().any(is_known) {
                let reference = branches::display_name(reference);
                conflicts.push(worktree.conflict(ConflictReason::CheckedOut { reference })?);
            }
        }
        if let Some(reference) = reference {
            conflicts.extend(checkouts::find_rebases(&self.repository, reference)?);
        }
        Ok(conflicts)
    }

    /// Locks one index. Returns a conflict if its working tree has changed branch.
    fn lock_checkout(
        &self,
        checkout: &CheckoutEffect,
    ) -> TargetResult<Result<LockedWorktree, Conflict>> {
        let locked = match self.lock_index(checkout)? {
            Ok(locked) => locked,
            Err(conflict) => return Ok(Err(conflict)),
        };
        // Checked under the lock: from now on no other branch can be checked out here.
        if branches::checked_out_branch(&locked.worktree.repository)? != self.effect.reference {
            let reference = branches::display_name(self.effect.reference.as_deref());
            return Ok(Err(Conflict {
                path: None,
                place: Some(checkout.root.clone()),
                reason: ConflictReason::SwitchedAway { reference },
            }));
        }
        Ok(Ok(locked))
    }

    /// Locks one index, whichever branch is checked out there.
    pub(super) fn lock_index(
        &self,
        checkout: &CheckoutEffect,
    ) -> TargetResult<Result<LockedWorktree, Conflict>> {
        let missing = |reason| Conflict {
            path: None,
            place: Some(checkout.root.clone()),
            reason,
        };
        let own = UserWorktree::new(self.repository.clone());
        let is_own =
            |worktree: &UserWorktree| worktree.root == path_from_bytes(checkout.root.as_bytes());
        let worktree = match own {
            Ok(worktree) if is_own(&worktree) => Ok(worktree),
            _ => UserWorktree::find(&self.targets.git, &checkout.root),
        };
        let worktree = match worktree {
            Ok(worktree) => worktree,
            Err(
                SandboxError::NotARepository { .. }
                | SandboxError::NotAFolder { .. }
                | SandboxError::Bare { .. }
                | SandboxError::Io { .. },
            ) => return Ok(Err(missing(ConflictReason::Missing))),
            Err(error) => return Err(error.into()),
        };
        if checkouts::to_absolute_path(&worktree.repository.git_dir)? != checkout.git_dir {
            return Ok(Err(missing(ConflictReason::Missing)));
        }
        let lock = IndexLock::acquire(&worktree.repository.git_dir, self.intent)?;
        self.targets.reached(ApplyStep::IndexLocked);
        Ok(Ok(LockedWorktree {
            worktree,
            checkout: checkout.clone(),
            _lock: lock,
        }))
    }

    fn lock_checkouts_on_branch(&self) -> TargetResult<Vec<LockedWorktree>> {
        let mut worktrees = Vec::new();
        for checkout in &self.effect.checkouts {
            worktrees.extend(self.lock_checkout(checkout)?.ok());
        }
        Ok(worktrees)
    }

    /// Returns our private store with the attributes of `tree`.
    pub(super) fn store(&self, tree: &str) -> PrivateStore {
        PrivateStore {
            git: self.targets.git.clone(),
            dir: PrivateGitDir::new(self.record.store()),
            format: self.effect.object_format,
            shaping: self.repository.settings.shaping.clone(),
            attributes: tree.to_owned(),
            reader: ObjectReader::default(),
            stop: StopSignal::new(),
        }
    }

    pub(super) fn inspector<'b>(
        &self,
        locked: &LockedWorktree,
        changes: &'b [PathChange],
        store: &'b PrivateStore,
    ) -> SandboxResult<PathInspector<'b>> {
        let modes = Modes::from_settings(&locked.worktree.repository.settings.shaping);
        PathInspector::new(&locked.worktree.root, modes, changes, Some(store))
    }

    /// Finds files that block the change in one working tree. Writes nothing.
    fn check_files(&self, locked: &LockedWorktree) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let store = self.store(&self.effect.old_tree);
        let inspector = self.inspector(locked, changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = PathWriter::new(
            &inspector,
            &self.record.new_files(),
            self.intent.id,
            watcher,
        )?;
        check_all_paths(
            &placer,
            changes,
            &sparse_paths(locked),
            &locked.checkout.root,
        )
    }

    fn unlink_drafts(&self, locked: &LockedWorktree) -> SandboxResult<()> {
        let changes = &self.intent.changes;
        let store = self.store(&self.effect.old_tree);
        let inspector = self.inspector(locked, changes, &store)?;
        let (files, watcher) = (self.record.new_files(), self.targets.watcher.as_ref());
        let placer = PathWriter::new(&inspector, &files, self.intent.id, watcher)?;
        unlink_drafts(&placer, changes)
    }

    /// Finds index entries that block the change. One check is enough because the index is locked.
    fn check_index(&self, locked: &LockedWorktree) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let root = &locked.checkout.root;
        let mut conflicts = Vec::new();
        let index = Index::read(&locked.worktree.repository)?;
        let removed = removed_paths(changes);
        for change in changes {
            let obstacle = index.conflict_reason(change, &|path| removed.contains(path));
            conflicts.extend(obstacle.map(|reason| Conflict {
                path: Some(change.path.clone()),
                place: Some(root.clone()),
                reason,
            }));
        }
        Ok(conflicts)
    }

    fn write_files(&self, locked: &LockedWorktree) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let store = self.store(&self.effect.old_tree);
        let inspector = self.inspector(locked, changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = PathWriter::new(
            &inspector,
            &self.record.new_files(),
            self.intent.id,
            watcher,
        )?;
        write_all_paths(
            &placer,
            changes,
            &sparse_paths(locked),
            &locked.checkout.root,
        )
    }

    fn replace_index(&self, locked: &LockedWorktree) -> SandboxResult<()> {
        let index = Index::read(&locked.worktree.repository)?;
        let changes = self.intent.changes.iter();
        let entries: Vec<_> = changes
            .filter(|change| !index.matches(change.path.as_bytes(), change.new.as_ref()))
            .map(|change| (&change.path, change.new.as_ref()))
            .collect();
        self.edit_index(locked, &index, entries)
    }

    pub(super) fn edit_index(
        &self,
        locked: &LockedWorktree,
        index: &Index,
        entries: Vec<(&ResourcePath, Option<&PathState>)>,
    ) -> SandboxResult<()> {
        if !entries.is_empty() {
            let paths = entries.iter().map(|(path, _)| *path);
            let mut skipped: BTreeSet<&ResourcePath> = paths
                .filter(|path| index.is_skipped(path.as_bytes()))
                .collect();
            skipped.extend(&locked.checkout.sparse);
            let edit = IndexEdit {
                repository: &locked.worktree.repository,
                format: self.effect.object_format,
                entries,
                skipped,
            };
            edit.install(self.record)?;
            self.targets.reached(ApplyStep::IndexReplaced);
        }
        Ok(())
    }

    fn written_paths(&self, worktrees: &[LockedWorktree]) -> SandboxResult<Vec<ResourcePath>> {
        let mut written = BTreeSet::new();
        let store = self.store(&self.effect.old_tree);
        for locked in worktrees {
            let inspector = self.inspector(locked, &self.intent.changes, &store)?;
            let paths =
                crate::apply::commit_files::written_paths(&inspector, &self.intent.changes)?;
            written.extend(paths);
        }
        Ok(written.into_iter().collect())
    }

    /// Handles a branch that another program moved. If its commit contains our whole change, the apply
    /// is done. Otherwise our writes are restored on paths where that commit has the old state;
    /// other paths are left as they are.
    fn restore_after_move(
        &self,
        found: Option<String>,
        worktrees: Vec<LockedWorktree>,
    ) -> TargetResult<CommitOutcome> {
        let tree = self.entries_of(found.as_deref())?;
        let matches = |change: &PathChange, state: &Option<PathState>| {
            let entry = tree.get(change.path.as_bytes());
            entry
                == state
                    .as_ref()
                    .map(|it| (it.mode, it.object.clone()))
                    .as_ref()
        };
        if found.is_some()
            && self
                .intent
                .changes
                .iter()
                .all(|change| matches(change, &change.new))
        {
            drop(worktrees);
            // Not our commit, so there is nothing of ours to undo later.
            return self.finish(None);
        }
        let changes = self.intent.changes.iter();
        let untouched: BTreeSet<&ResourcePath> = changes
            .filter(|change| matches(change, &change.old))
            .map(|change| &change.path)
            .collect();
        for locked in &worktrees {
            self.restore_paths(locked, &untouched)?;
        }
        let written = self.written_paths(&worktrees)?;
        let nothing = || "no commit".to_owned();
        let moved = Conflict {
            path: None,
            place: None,
            reason: ConflictReason::Moved {
                reference: branches::display_name(self.effect.reference.as_deref()),
                expected: self.effect.old.clone().unwrap_or_else(nothing),
                found: found.unwrap_or_else(nothing),
            },
        };
        Ok(stopped_outcome(vec![moved], written))
    }

    /// Restores the files and index entries of these paths. Content that is no longer ours stays.
    fn restore_paths(
        &self,
        locked: &LockedWorktree,
        paths: &BTreeSet<&ResourcePath>,
    ) -> SandboxResult<()> {
        let changes = reverse_changes(&self.intent.changes);
        let store = self.store(&self.effect.new_tree);
        let inspector = self.inspector(locked, &changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = PathWriter::new(
            &inspector,
            &self.record.old_files(),
            self.intent.id,
            watcher,
        )?
        .with_own_folders(own_folders::load(self.record, &locked.checkout.root)?);
        let sparse = sparse_paths(locked);
        let numbered = || changes.iter().enumerate();
        let removals = numbered().filter(|(_, change)| change.new.is_none());
        let additions = numbered().filter(|(_, change)| change.new.is_some());
        for (number, change) in removals.chain(additions) {
            // Leftovers are resolved on every path, also on those that stay: a temporary file of
            // ours must not remain.
            placer.clean_up_path(number, change)?;
            if !paths.contains(&change.path) || sparse.contains(&change.path) {
                continue;
            }
            match inspector.change_state(change)? {
                PathChangeState::Old => drop(placer.write_path(number, change, Sync::Yes)?),
                PathChangeState::New if change.new.is_none() => {
                    placer.remove_own_parents(change.path.as_bytes());
                }
                PathChangeState::New | PathChangeState::Foreign(_) => {}
            }
        }
        let index = Index::read(&locked.worktree.repository)?;
        let ours = changes.iter().filter(|change| {
            let path = change.path.as_bytes();
            paths.contains(&change.path) && index.matches(path, change.old.as_ref())
        });
        let entries = ours
            .map(|change| (&change.path, change.new.as_ref()))
            .collect();
        self.edit_index(locked, &index, entries)
    }

    pub(super) fn entries_of(&self, commit: Option<&str>) -> SandboxResult<CommitEntries> {
        let Some(commit) = commit else {
            return Ok(BTreeMap::new());
        };
        let tree = format!("{commit}^{{tree}}");
        let tree = self
            .repository
            .call(UserGitCommand::Resolve(&tree))
            .line()?;
        let store = self.store(&tree);
        let entries = store.entries_of(&TreeId::new(&tree, None)?)?;
        let entries = entries.files.into_iter();
        Ok(entries
            .map(|(path, it)| (path, (it.mode, it.object.to_string())))
            .collect())
    }
}

fn sparse_paths(locked: &LockedWorktree) -> BTreeSet<&ResourcePath> {
    locked.checkout.sparse.iter().collect()
}

fn stopped_outcome(mut conflicts: Vec<Conflict>, written: Vec<ResourcePath>) -> CommitOutcome {
    conflicts.sort_unstable();
    conflicts.dedup();
    CommitOutcome::Stopped(StoppedCommit { conflicts, written })
}
