//! Prepares a commit on a branch of the user's, or its files alone.

use std::collections::BTreeSet;
use std::path::Path;

use cleveragents_domain::{AbsolutePath, ResourcePath};
use cleveragents_engine::ports::sandbox::{Head, SandboxResult};
use cleveragents_engine::ports::targets::{
    ApplyIntent, ApplyRequest, CheckoutEffect, CommitEffect, Conflict, ConflictReason, Destination,
    Effect, FilesEffect, PathChange, Prepared, RequestedChange, TargetError, TargetResult,
};

use crate::apply::branches;
use crate::apply::checkouts::{self, Place, absolute};
use crate::apply::forbidden::{Filtered, SubmoduleChanges, filtered, forbidden, of_filter};
use crate::apply::index::{Index, not_expandable};
use crate::apply::record::Record;
use crate::apply::sparse;
use crate::apply::standing::{Eye, Found, Modes, Standing};
use crate::apply::steps::ApplyStep;
use crate::apply::workbench::{self, Merge, with_attributes};
use crate::apply::{LocalTargets, staging};
use crate::files::{path_of, remove, resource_path};
use crate::make_git::top_level;
use crate::repository::Repository;
use crate::store::PrivateStore;
use crate::{pack, references};

/// What the change is made of, and the store that has it all.
struct Material {
    repository: Repository,
    store: PrivateStore,
    /// The trees between which the change lies.
    base: String,
    result: String,
    base_commit: Option<String>,
    submodules: SubmoduleChanges,
}

/// What the change goes to.
struct Target {
    reference: Option<String>,
    old: Option<String>,
    /// What the new commit stands on: the old one, or where a new branch begins.
    parent: Option<String>,
    tree: String,
}

/// A change that fits its target.
struct Fitted {
    new_tree: String,
    changes: Vec<PathChange>,
    filtered: Filtered,
}

enum Fit {
    Fits(Fitted),
    Nothing,
    Blocked(Vec<Conflict>),
}

pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
) -> TargetResult<Prepared> {
    let material = material(targets, record, request)?;
    let (repository, store) = (&material.repository, &material.store);
    let target = find_target(&material, request)?;
    if let Some(gone) = gone(&target, request) {
        return Ok(Prepared::Blocked(vec![gone]));
    }
    let mut fitted = match fit(&material, &target)? {
        Fit::Fits(fitted) => fitted,
        Fit::Nothing => return Ok(Prepared::Nothing),
        Fit::Blocked(conflicts) => return Ok(Prepared::Blocked(conflicts)),
    };
    let reference = target.reference.as_deref();
    let mut conflicts = Vec::new();
    let places = checkouts::having(&targets.git, repository, reference, &mut conflicts)?;
    for place in &places {
        conflicts.extend(checkouts::in_progress(place)?);
    }
    if let Some(reference) = reference {
        conflicts.extend(checkouts::rebases_of(repository, reference)?);
    }
    conflicts.dedup();
    let trees = (target.tree.as_str(), fitted.new_tree.as_str());
    if !places.is_empty() {
        staging::stage(store, record, &mut fitted.changes, trees)?;
        targets.reached(ApplyStep::Staged);
    }
    let old_store = with_attributes(store, &target.tree);
    let mut effects = Vec::new();
    for place in &places {
        effects.push(inspect(
            place,
            &fitted,
            &old_store,
            UseOfIndex::Committed,
            &mut conflicts,
        )?);
    }
    if !conflicts.is_empty() {
        conflicts.sort_unstable();
        conflicts.dedup();
        return Ok(Prepared::Blocked(conflicts));
    }
    let new = make_commit(
        targets,
        record,
        &material,
        (&target, &fitted.new_tree),
        request,
    )?;
    // The sandbox may go now.
    workbench::borrow(store, &[&repository.objects_dir()])?;
    let effect = CommitEffect {
        reference: target.reference,
        old: target.old,
        new,
        old_tree: target.tree,
        new_tree: fitted.new_tree,
        object_format: repository.object_format,
        checkouts: effects,
    };
    Ok(ready(request, fitted.changes, Effect::Commit(effect)))
}

/// The files alone: as if it were committed, but neither commit nor index is touched.
pub(crate) fn prepare_worktree(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
) -> TargetResult<Prepared> {
    let material = material(targets, record, request)?;
    let target = find_target(&material, request)?;
    let mut fitted = match fit(&material, &target)? {
        Fit::Fits(fitted) => fitted,
        Fit::Nothing => return Ok(Prepared::Nothing),
        Fit::Blocked(conflicts) => return Ok(Prepared::Blocked(conflicts)),
    };
    let trees = (target.tree.as_str(), fitted.new_tree.as_str());
    staging::stage(&material.store, record, &mut fitted.changes, trees)?;
    targets.reached(ApplyStep::Staged);
    workbench::borrow(&material.store, &[&material.repository.objects_dir()])?;
    let place = Place::of(material.repository)?;
    let old_store = with_attributes(&material.store, &target.tree);
    let mut conflicts = Vec::new();
    let checkout = inspect(
        &place,
        &fitted,
        &old_store,
        UseOfIndex::Untouched,
        &mut conflicts,
    )?;
    if !conflicts.is_empty() {
        return Ok(Prepared::Blocked(conflicts));
    }
    let sparse: BTreeSet<&ResourcePath> = checkout.sparse.iter().collect();
    fitted
        .changes
        .retain(|change| !sparse.contains(&change.path));
    let effect = Effect::Files(FilesEffect {
        root: absolute(&place.root)?,
        made: Vec::new(),
        removed: Vec::new(),
    });
    Ok(ready(request, fitted.changes, effect))
}

pub(crate) fn ready(request: &ApplyRequest, changes: Vec<PathChange>, effect: Effect) -> Prepared {
    Prepared::Ready(Box::new(ApplyIntent {
        version: ApplyIntent::VERSION,
        id: request.id,
        plan: request.plan,
        resource: request.resource.clone(),
        resource_type: request.resource_type,
        destination: request.destination.clone(),
        changes,
        effect,
        commit: request.commit.clone(),
    }))
}

fn material(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
) -> TargetResult<Material> {
    let resource = path_of(request.resource.as_bytes());
    let repository = Repository::find(&targets.git, resource)?;
    top_level(&repository, resource)?;
    let users = repository.objects_dir();
    let make = |objects: &[&Path]| -> SandboxResult<PrivateStore> {
        let format = repository.object_format;
        workbench::like(
            workbench::make(&targets.git, record, format, objects)?,
            &repository,
        )
    };
    let (store, base, result, base_commit) = match &request.change {
        RequestedChange::Result {
            sandbox,
            from,
            to,
            base_commit,
        } => {
            let sandbox = targets.sandbox(*sandbox)?;
            let objects = sandbox.store.dir.join("objects");
            let store = make(&[&users, &objects])?;
            (store, from.files(), to.files(), base_commit.clone())
        }
        RequestedChange::Reverse(applied) => {
            let forgotten = TargetError::Forgotten { id: applied.id };
            let Effect::Commit(effect) = &applied.effect else {
                return Err(forgotten);
            };
            let store = make(&[&users])?;
            let (base, result) = (effect.new_tree.as_str(), effect.old_tree.as_str());
            let is_empty = result == store.attributes;
            if !workbench::has(&store, base)? || !(is_empty || workbench::has(&store, result)?) {
                return Err(forgotten);
            }
            (store, base, result, None)
        }
    };
    let (base, result) = (base.to_owned(), result.to_owned());
    let submodules = match &request.change {
        RequestedChange::Result { .. } => SubmoduleChanges::Removal,
        RequestedChange::Reverse(_) => SubmoduleChanges::RemovalOrReturn,
    };
    Ok(Material {
        repository,
        store,
        base,
        result,
        base_commit,
        submodules,
    })
}

fn find_target(material: &Material, request: &ApplyRequest) -> TargetResult<Target> {
    let repository = &material.repository;
    // What was applied to a branch is reversed there, wherever the user is by now.
    let applied_to = match &request.change {
        RequestedChange::Reverse(applied) => match &applied.effect {
            Effect::Commit(effect) => effect.reference.clone(),
            _ => None,
        },
        RequestedChange::Result { .. } => None,
    };
    let (reference, old) = match (applied_to, &request.destination) {
        (Some(reference), _) => {
            let old = references::read(repository, &reference)?;
            (Some(reference), old)
        }
        (None, Destination::Branch(name)) => {
            let reference = branches::full_name(repository, name)?;
            let old = references::read(repository, &reference)?;
            (Some(reference), old)
        }
        (None, _) => match repository.head()? {
            Head::Branch { reference, commit } => (Some(reference), Some(commit)),
            Head::Detached { commit } => (None, Some(commit)),
            Head::Unborn { reference } => (Some(reference), None),
        },
    };
    let is_unborn = branches::checked_out(repository)? == reference;
    let parent = match &old {
        Some(old) => Some(old.clone()),
        None if is_unborn => None,
        None => material.base_commit.clone(),
    };
    let tree = match &parent {
        Some(parent) => workbench::tree_of(&material.store, parent)?,
        // The store takes its attributes from the empty tree.
        None => material.store.attributes.clone(),
    };
    Ok(Target {
        reference,
        old,
        parent,
        tree,
    })
}

/// A branch that is not there any more has nothing to take back.
fn gone(target: &Target, request: &ApplyRequest) -> Option<Conflict> {
    let (RequestedChange::Reverse(applied), None) = (&request.change, &target.old) else {
        return None;
    };
    let Effect::Commit(effect) = &applied.effect else {
        return None;
    };
    Some(Conflict {
        path: None,
        place: None,
        reason: ConflictReason::Moved {
            reference: branches::shown(target.reference.as_deref()),
            expected: effect.new.clone(),
            found: "no commit".to_owned(),
        },
    })
}

/// Merges, and refuses what may not be changed at all.
fn fit(material: &Material, target: &Target) -> TargetResult<Fit> {
    let store = &material.store;
    let merged = workbench::merge(store, &material.base, &target.tree, &material.result)?;
    let new_tree = match merged {
        Merge::Clean(tree) => tree,
        Merge::Conflicts(paths) => {
            let conflicts = paths.iter().map(|(path, kind)| {
                let kind = kind.clone();
                conflict(path, ConflictReason::Merge { kind })
            });
            return Ok(Fit::Blocked(conflicts.collect::<SandboxResult<_>>()?));
        }
    };
    if new_tree == target.tree {
        return Ok(Fit::Nothing);
    }
    let changes = workbench::changes(store, &target.tree, &new_tree)?;
    let filtered = filtered(store, &changes, [&target.tree, &new_tree])?;
    let conflicts = forbidden(store, &changes, &filtered, material.submodules)?;
    Ok(match conflicts.is_empty() {
        true => Fit::Fits(Fitted {
            new_tree,
            changes,
            filtered,
        }),
        false => Fit::Blocked(conflicts),
    })
}

pub(crate) fn conflict(path: &[u8], reason: ConflictReason) -> SandboxResult<Conflict> {
    Ok(Conflict {
        path: Some(resource_path(path)?),
        place: None,
        reason,
    })
}

/// Whether the index of a working tree is to follow the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UseOfIndex {
    Committed,
    Untouched,
}

/// Entries, on whatever path, with which an index cannot follow a commit. As in git, merges have to
/// be resolved first.
fn unusable(place: &Place, index: &Index, root: &AbsolutePath) -> SandboxResult<Vec<Conflict>> {
    let unmerged = index.unmerged().map(<[u8]>::to_vec);
    let unmerged = unmerged.map(|path| (path, ConflictReason::Unmerged));
    let announced = not_expandable(&place.repository)?.into_iter();
    let announced = announced.map(|path| (path, ConflictReason::Staged));
    let conflict = |(path, reason): (Vec<u8>, ConflictReason)| {
        Ok(Conflict {
            path: Some(resource_path(&path)?),
            place: Some(root.clone()),
            reason,
        })
    };
    unmerged.chain(announced).map(conflict).collect()
}

/// Looks for work of the user's on the changed paths of one working tree.
fn inspect(
    place: &Place,
    Fitted {
        changes, filtered, ..
    }: &Fitted,
    store: &PrivateStore,
    use_of_index: UseOfIndex,
    conflicts: &mut Vec<Conflict>,
) -> SandboxResult<CheckoutEffect> {
    let root = absolute(&place.root)?;
    let index = Index::read(&place.repository)?;
    let modes = Modes::of(&place.repository.settings.shaping);
    let eye = Eye::on(&place.root, modes, changes, Some(store))?;
    let eye = match use_of_index {
        UseOfIndex::Committed => eye,
        UseOfIndex::Untouched => eye.without_index(),
    };
    let leaving = leaving(changes);
    let left_out = sparse::left_out(place, changes)?;
    let mut sparse = Vec::new();
    if use_of_index == UseOfIndex::Committed {
        conflicts.extend(unusable(place, &index, &root)?);
    }
    for change in changes {
        let path = change.path.as_bytes();
        let obstacle = index.obstacle(change, &|path| leaving.contains(path));
        let is_staged = !index.is(path, change.old.as_ref());
        let is_skipped = index.is_skipped(path) || left_out.contains(&change.path);
        let reason = match obstacle {
            Some(reason) => Some(reason),
            None if is_staged => Some(ConflictReason::Staged),
            None if is_skipped && eye.look(path)? == Found::Nothing => {
                sparse.push(change.path.clone());
                None
            }
            None => dirt(&eye, change)?,
        };
        let reason = reason.map(|reason| of_filter(reason, filtered.get(path)));
        conflicts.extend(reason.map(|reason| Conflict {
            path: Some(change.path.clone()),
            place: Some(root.clone()),
            reason,
        }));
    }
    Ok(CheckoutEffect {
        root,
        git_dir: absolute(&place.repository.git_dir)?,
        sparse,
    })
}

pub(crate) fn leaving(changes: &[PathChange]) -> BTreeSet<&[u8]> {
    let leaving = changes.iter().filter(|change| change.new.is_none());
    leaving.map(|change| change.path.as_bytes()).collect()
}

/// Why a file is not as committed. That somebody wrote the very same change is no reason to take it
/// for ours.
fn dirt(eye: &Eye<'_>, change: &PathChange) -> SandboxResult<Option<ConflictReason>> {
    Ok(match (eye.standing(change)?, &change.old) {
        (Standing::Old, _) => None,
        (Standing::Foreign(reason), _) => Some(reason),
        (Standing::New, _) if eye.is_both(change)? => None,
        (Standing::New, None) => Some(ConflictReason::Untracked),
        (Standing::New, Some(_)) => Some(ConflictReason::Changed),
    })
}

/// Makes the commit and puts it into the user's repository, kept by a ref of ours.
fn make_commit(
    targets: &LocalTargets,
    record: &Record,
    material: &Material,
    (target, new_tree): (&Target, &str),
    request: &ApplyRequest,
) -> TargetResult<String> {
    let (repository, store) = (&material.repository, &material.store);
    let parent = target.parent.as_deref();
    let signing = &repository.settings.signing;
    let commit = workbench::commit(store, new_tree, parent, &request.commit, signing)?;
    targets.reached(ApplyStep::Committed);
    let mut wanted = format!("{commit}\n");
    if let Some(parent) = parent {
        wanted.push_str(&format!("^{parent}\n"));
    }
    let whose = request.id.to_string();
    let pack = pack::write(store, &record.packing(), &wanted, &whose)?;
    let _turn = targets.turn(repository)?;
    record.note_keep(&pack.keep_in(repository))?;
    targets.reached(ApplyStep::PackNoted);
    pack.give_to(repository, &whose, record.given_at())?;
    targets.reached(ApplyStep::PackGiven);
    references::set(repository, &references::apply(request.id), &commit)?;
    targets.reached(ApplyStep::Pinned);
    record.release_keep()?;
    remove(&record.packing())?;
    Ok(commit)
}
