//! Carries out a commit: files, index, branch, in this order, under the lock of the index.
//!
//! Every call looks at the branch first. It stands where it is expected: onwards. It has the new
//! commit: done. It stands elsewhere: somebody else was faster, and what was written for the old
//! state is put back where that is still the right thing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult, TreeId};
use cleveragents_engine::ports::stop::Stop;
use cleveragents_engine::ports::targets::{
    Applied, ApplyIntent, Carried, CheckoutEffect, CommitEffect, Conflict, ConflictReason,
    PathChange, PathState, Stopped, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchStanding};
use crate::apply::carry_files::{look_at_all, put_all};
use crate::apply::checkouts::{self, Place};
use crate::apply::index::{Edit, Index, IndexLock};
use crate::apply::place::Placer;
use crate::apply::prepare_commit::leaving;
use crate::apply::prepare_files::reversed;
use crate::apply::record::Record;
use crate::apply::ref_transaction::RefTransaction;
use crate::apply::standing::{Eye, Modes, Standing};
use crate::apply::steps::ApplyStep;
use crate::apply::user_moves::{Marks, undone_by_user};
use crate::files::{Sync, path_of};
use crate::private_dir::PrivateGitDir;
use crate::repository::Repository;
use crate::store::{PrivateStore, Reader};
use crate::users_command::UsersCommand;

/// One call of carrying out. The caller has the turn of the repository.
pub(crate) struct Run<'a> {
    pub(crate) targets: &'a LocalTargets,
    pub(crate) record: &'a Record,
    pub(crate) intent: &'a ApplyIntent,
    pub(crate) effect: &'a CommitEffect,
    pub(crate) repository: Repository,
}

/// Modes and objects of a commit's paths.
pub(super) type Entries = BTreeMap<Vec<u8>, (u32, String)>;

/// A working tree that is changed, its index locked.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) place: Place,
    checkout: CheckoutEffect,
    /// Released with the site.
    _lock: IndexLock,
}

/// The locks of one commit: every index and the branch, all of them looked at.
#[derive(Debug)]
pub(crate) struct CommitLocks {
    sites: Vec<Site>,
    branch: RefTransaction,
}

/// Why the locks of one commit cannot be had.
pub(crate) enum NotLocked {
    Conflicts(Vec<Conflict>, Written),
    Branch(BranchStanding),
}

/// Paths that are as they are to be already.
type Written = Vec<ResourcePath>;

pub(crate) fn carry_out(run: &Run<'_>, turn: &File) -> TargetResult<Carried> {
    let standing = match branches::standing(&run.repository, run.effect)? {
        BranchStanding::Old => match run.lock_all(turn)? {
            Ok(locks) => return run.forward(locks),
            Err(NotLocked::Conflicts(conflicts, written)) => {
                return Ok(stopped(conflicts, written));
            }
            Err(NotLocked::Branch(standing)) => standing,
        },
        standing => standing,
    };
    run.settle_moved(standing, None)
}

impl Run<'_> {
    /// Locks every index and the branch, and looks at everything under the locks.
    pub(crate) fn lock_all(&self, turn: &File) -> TargetResult<Result<CommitLocks, NotLocked>> {
        let undone = self.record.marks().filter(|it| !it.are_untouched());
        if undone.is_some() {
            let written = self.written(&self.lock_those_on_the_branch()?)?;
            return Ok(Err(NotLocked::Conflicts(
                vec![undone_by_user(self.intent)],
                written,
            )));
        }
        let mut conflicts = self.strangers()?;
        let mut sites = Vec::new();
        for checkout in &self.effect.checkouts {
            match self.lock(checkout)? {
                Ok(site) => sites.push(site),
                Err(conflict) => conflicts.push(conflict),
            }
        }
        for site in &sites {
            conflicts.extend(checkouts::in_progress(&site.place)?);
            conflicts.extend(self.look_at_files(site)?);
            conflicts.extend(self.look_at_index(site)?);
        }
        if !conflicts.is_empty() {
            conflicts.sort_unstable();
            let written = self.written(&sites)?;
            return Ok(Err(NotLocked::Conflicts(conflicts, written)));
        }
        let what = (self.effect, &self.intent.commit);
        match RefTransaction::prepare(&self.repository, self.record, what, turn)? {
            Err(standing) => Ok(Err(NotLocked::Branch(standing))),
            Ok(branch) => {
                self.targets.reached(ApplyStep::BranchLocked);
                Ok(Ok(CommitLocks { sites, branch }))
            }
        }
    }

    /// Files, index, branch, under their locks.
    pub(crate) fn forward(&self, locks: CommitLocks) -> TargetResult<Carried> {
        let CommitLocks { sites, branch } = locks;
        let git_dirs = self.effect.checkouts.iter();
        let git_dirs: Vec<&Path> = git_dirs.map(|it| path_of(it.git_dir.as_bytes())).collect();
        let reference = self.effect.reference.as_deref();
        let marks = Marks::of_commit(&self.repository, reference, &git_dirs);
        self.record.note_begun(&marks)?;
        self.targets.reached(ApplyStep::Begun);
        let mut conflicts = Vec::new();
        for site in &sites {
            conflicts.extend(self.look_at_files(site)?);
        }
        for site in &sites {
            if conflicts.is_empty() {
                conflicts.extend(self.put(site)?);
            }
        }
        if !conflicts.is_empty() {
            let written = self.written(&sites)?;
            return Ok(stopped(conflicts, written));
        }
        for site in &sites {
            self.replace_index(site)?;
        }
        // Git's own lock is held; what writes past it is seen here.
        match branches::standing(&self.repository, self.effect)? {
            BranchStanding::Old => {
                branch.commit(self.record, &self.repository, self.effect)?;
                self.targets.reached(ApplyStep::BranchMoved);
                drop(sites);
                self.targets.reached(ApplyStep::IndexUnlocked);
                self.finish(&self.effect.new)
            }
            standing => {
                drop(branch);
                self.settle_moved(standing, Some(sites))
            }
        }
    }

    /// The branch is not where it was: it has the commit, or somebody else moved it.
    fn settle_moved(
        &self,
        standing: BranchStanding,
        sites: Option<Vec<Site>>,
    ) -> TargetResult<Carried> {
        let found = match standing {
            BranchStanding::New => return self.finish(&self.effect.new),
            BranchStanding::Old => self.effect.old.clone(),
            BranchStanding::Elsewhere(found) => found,
        };
        let sites = match sites {
            Some(sites) => sites,
            None if self.record.has_begun() => self.lock_those_on_the_branch()?,
            None => Vec::new(),
        };
        self.elsewhere(found, sites)
    }

    /// Clears up what a killed call left, and says where the result is.
    fn finish(&self, commit: &str) -> TargetResult<Carried> {
        for checkout in &self.effect.checkouts {
            let git_dir = path_of(checkout.git_dir.as_bytes());
            IndexLock::release_left(git_dir, self.intent)?;
        }
        Ok(Carried::Done(Applied {
            commit: Some(commit.to_owned()),
            reference: self.effect.reference.clone(),
            file: None,
        }))
    }

    /// Working trees and rebases that came to the branch since it was prepared.
    fn strangers(&self) -> SandboxResult<Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let reference = self.effect.reference.as_deref();
        let git = &self.targets.git;
        let places = checkouts::having(git, &self.repository, reference, &mut conflicts)?;
        for place in places {
            let git_dir = checkouts::absolute(&place.repository.git_dir)?;
            let is_known = |it: &CheckoutEffect| it.git_dir == git_dir;
            if !self.effect.checkouts.iter().any(is_known) {
                let reference = branches::shown(reference);
                conflicts.push(place.conflict(ConflictReason::CheckedOut { reference })?);
            }
        }
        if let Some(reference) = reference {
            conflicts.extend(checkouts::rebases_of(&self.repository, reference)?);
        }
        Ok(conflicts)
    }

    /// Locks one index, or says why its working tree is no longer what it was.
    fn lock(&self, checkout: &CheckoutEffect) -> TargetResult<Result<Site, Conflict>> {
        let site = match self.lock_place(checkout)? {
            Ok(site) => site,
            Err(conflict) => return Ok(Err(conflict)),
        };
        // Asked under the lock: from now on no other branch can be checked out here.
        if branches::checked_out(&site.place.repository)? != self.effect.reference {
            let reference = branches::shown(self.effect.reference.as_deref());
            return Ok(Err(Conflict {
                path: None,
                place: Some(checkout.root.clone()),
                reason: ConflictReason::SwitchedAway { reference },
            }));
        }
        Ok(Ok(site))
    }

    /// Locks one index, whatever is checked out there.
    pub(super) fn lock_place(
        &self,
        checkout: &CheckoutEffect,
    ) -> TargetResult<Result<Site, Conflict>> {
        let missing = |reason| Conflict {
            path: None,
            place: Some(checkout.root.clone()),
            reason,
        };
        let own = Place::of(self.repository.clone());
        let is_own = |place: &Place| place.root == path_of(checkout.root.as_bytes());
        let place = match own {
            Ok(place) if is_own(&place) => Ok(place),
            _ => Place::at(&self.targets.git, &checkout.root),
        };
        let place = match place {
            Ok(place) => place,
            Err(
                SandboxError::NotARepository { .. }
                | SandboxError::NotAFolder { .. }
                | SandboxError::Bare { .. }
                | SandboxError::Io { .. },
            ) => return Ok(Err(missing(ConflictReason::Missing))),
            Err(error) => return Err(error.into()),
        };
        if checkouts::absolute(&place.repository.git_dir)? != checkout.git_dir {
            return Ok(Err(missing(ConflictReason::Missing)));
        }
        let lock = IndexLock::take(&place.repository.git_dir, self.intent)?;
        self.targets.reached(ApplyStep::IndexLocked);
        Ok(Ok(Site {
            place,
            checkout: checkout.clone(),
            _lock: lock,
        }))
    }

    fn lock_those_on_the_branch(&self) -> TargetResult<Vec<Site>> {
        let mut sites = Vec::new();
        for checkout in &self.effect.checkouts {
            sites.extend(self.lock(checkout)?.ok());
        }
        Ok(sites)
    }

    /// The store of ours, with the attributes of one side.
    pub(super) fn store(&self, tree: &str) -> PrivateStore {
        PrivateStore {
            git: self.targets.git.clone(),
            dir: PrivateGitDir::new(self.record.store()),
            format: self.effect.object_format,
            shaping: self.repository.settings.shaping.clone(),
            attributes: tree.to_owned(),
            reader: Reader::default(),
            stop: Stop::new(),
        }
    }

    pub(super) fn eye<'b>(
        &self,
        site: &Site,
        changes: &'b [PathChange],
        store: &'b PrivateStore,
    ) -> SandboxResult<Eye<'b>> {
        let modes = Modes::of(&site.place.repository.settings.shaping);
        Eye::on(&site.place.root, modes, changes, Some(store))
    }

    /// Files that stand in the way in one working tree, before anything of it is written.
    fn look_at_files(&self, site: &Site) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let store = self.store(&self.effect.old_tree);
        let eye = self.eye(site, changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = Placer::new(&eye, &self.record.new_files(), self.intent.id, watcher)?;
        look_at_all(&placer, changes, &sparse(site), &site.checkout.root)
    }

    /// Entries of the index that stand in the way. Under its lock one look is enough.
    fn look_at_index(&self, site: &Site) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let root = &site.checkout.root;
        let mut conflicts = Vec::new();
        let index = Index::read(&site.place.repository)?;
        let leaving = leaving(changes);
        for change in changes {
            let obstacle = index.obstacle(change, &|path| leaving.contains(path));
            conflicts.extend(obstacle.map(|reason| Conflict {
                path: Some(change.path.clone()),
                place: Some(root.clone()),
                reason,
            }));
        }
        Ok(conflicts)
    }

    fn put(&self, site: &Site) -> SandboxResult<Vec<Conflict>> {
        let changes = &self.intent.changes;
        let store = self.store(&self.effect.old_tree);
        let eye = self.eye(site, changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = Placer::new(&eye, &self.record.new_files(), self.intent.id, watcher)?;
        put_all(&placer, changes, &sparse(site), &site.checkout.root)
    }

    fn replace_index(&self, site: &Site) -> SandboxResult<()> {
        let index = Index::read(&site.place.repository)?;
        let changes = self.intent.changes.iter();
        let entries: Vec<_> = changes
            .filter(|change| !index.is(change.path.as_bytes(), change.new.as_ref()))
            .map(|change| (&change.path, change.new.as_ref()))
            .collect();
        self.edit_index(site, &index, entries)
    }

    pub(super) fn edit_index(
        &self,
        site: &Site,
        index: &Index,
        entries: Vec<(&ResourcePath, Option<&PathState>)>,
    ) -> SandboxResult<()> {
        if !entries.is_empty() {
            let paths = entries.iter().map(|(path, _)| *path);
            let mut skipped: BTreeSet<&ResourcePath> = paths
                .filter(|path| index.is_skipped(path.as_bytes()))
                .collect();
            skipped.extend(&site.checkout.sparse);
            let edit = Edit {
                repository: &site.place.repository,
                format: self.effect.object_format,
                entries,
                skipped,
            };
            edit.install(self.record)?;
            self.targets.reached(ApplyStep::IndexReplaced);
        }
        Ok(())
    }

    fn written(&self, sites: &[Site]) -> SandboxResult<Vec<ResourcePath>> {
        let mut written = BTreeSet::new();
        let store = self.store(&self.effect.old_tree);
        for site in sites {
            let eye = self.eye(site, &self.intent.changes, &store)?;
            let paths = crate::apply::carry_files::written(&eye, &self.intent.changes)?;
            written.extend(paths);
        }
        Ok(written.into_iter().collect())
    }

    /// The branch was moved by somebody else. If its commit has our change, that is as good as
    /// ours. Else what was written is put back where that commit has the old state; where it has
    /// another, it is left to its maker.
    fn elsewhere(&self, found: Option<String>, sites: Vec<Site>) -> TargetResult<Carried> {
        let tree = self.entries_of(found.as_deref())?;
        let is = |change: &PathChange, state: &Option<PathState>| {
            let entry = tree.get(change.path.as_bytes());
            entry
                == state
                    .as_ref()
                    .map(|it| (it.mode, it.object.clone()))
                    .as_ref()
        };
        if let Some(found) = &found
            && self
                .intent
                .changes
                .iter()
                .all(|change| is(change, &change.new))
        {
            drop(sites);
            return self.finish(found);
        }
        let changes = self.intent.changes.iter();
        let untouched: BTreeSet<&ResourcePath> = changes
            .filter(|change| is(change, &change.old))
            .map(|change| &change.path)
            .collect();
        for site in &sites {
            self.put_back(site, &untouched)?;
        }
        let written = self.written(&sites)?;
        let nothing = || "no commit".to_owned();
        let moved = Conflict {
            path: None,
            place: None,
            reason: ConflictReason::Moved {
                reference: branches::shown(self.effect.reference.as_deref()),
                expected: self.effect.old.clone().unwrap_or_else(nothing),
                found: found.unwrap_or_else(nothing),
            },
        };
        Ok(stopped(vec![moved], written))
    }

    /// Puts back what we wrote of these paths, files and entries; what is no longer ours stays.
    fn put_back(&self, site: &Site, paths: &BTreeSet<&ResourcePath>) -> SandboxResult<()> {
        let changes = reversed(&self.intent.changes);
        let store = self.store(&self.effect.new_tree);
        let eye = self.eye(site, &changes, &store)?;
        let watcher = self.targets.watcher.as_ref();
        let placer = Placer::new(&eye, &self.record.old_files(), self.intent.id, watcher)?;
        let sparse = sparse(site);
        let numbered = || changes.iter().enumerate();
        let going = numbered().filter(|(_, change)| change.new.is_none());
        let coming = numbered().filter(|(_, change)| change.new.is_some());
        for (number, change) in going.chain(coming) {
            placer.settle(number, change)?;
            let is_ours = paths.contains(&change.path) && !sparse.contains(&change.path);
            if is_ours && eye.standing(change)? == Standing::Old {
                placer.put(number, change, Sync::Yes)?;
            }
        }
        let index = Index::read(&site.place.repository)?;
        let ours = changes.iter().filter(|change| {
            let path = change.path.as_bytes();
            paths.contains(&change.path) && index.is(path, change.old.as_ref())
        });
        let entries = ours
            .map(|change| (&change.path, change.new.as_ref()))
            .collect();
        self.edit_index(site, &index, entries)
    }

    pub(super) fn entries_of(&self, commit: Option<&str>) -> SandboxResult<Entries> {
        let Some(commit) = commit else {
            return Ok(BTreeMap::new());
        };
        let tree = format!("{commit}^{{tree}}");
        let tree = self.repository.ask(UsersCommand::Resolve(&tree)).line()?;
        let store = self.store(&tree);
        let entries = store.entries_of(&TreeId::new(&tree, None)?)?;
        let entries = entries.files.into_iter();
        Ok(entries
            .map(|(path, it)| (path, (it.mode, it.object.to_string())))
            .collect())
    }
}

fn sparse(site: &Site) -> BTreeSet<&ResourcePath> {
    site.checkout.sparse.iter().collect()
}

fn stopped(mut conflicts: Vec<Conflict>, written: Vec<ResourcePath>) -> Carried {
    conflicts.sort_unstable();
    conflicts.dedup();
    Carried::Stopped(Stopped { conflicts, written })
}
