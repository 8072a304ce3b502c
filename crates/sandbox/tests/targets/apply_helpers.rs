//! Helpers to make a plan's change of one resource and to apply it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::id::ApplyId;
use cleveragents_domain::{AbsolutePath, BaseSource, ResourceType};
use cleveragents_ports::sandbox::{CommitMetadata, Sandboxes};
use cleveragents_ports::targets::{
    AppliedResult, ApplyIntent, ApplyRequest, ApplyTargets, CommitOutcome, Conflict,
    ConflictReason, Destination, PrepareOutcome, RequestedChange,
};
use cleveragents_sandbox::{LocalTargets, NoWatcher, Watcher};

use crate::environment::{SandboxTestWorld, capture, git_settings, script};

pub(crate) fn targets(world: &SandboxTestWorld) -> LocalTargets {
    targets_with_watcher(
        &world.path("data"),
        &world.path("home"),
        Arc::new(NoWatcher),
    )
}

pub(crate) fn targets_with_watcher(
    data: &Path,
    home: &Path,
    watcher: Arc<dyn Watcher>,
) -> LocalTargets {
    LocalTargets::open(data, git_settings(home.to_owned()), watcher).unwrap()
}

pub(crate) fn commit_metadata(message: &str) -> CommitMetadata {
    CommitMetadata {
        name: "A Plan".into(),
        email: "plan@localhost".into(),
        seconds: 1_700_000_000,
        message: message.into(),
    }
}

/// Edits in a sandbox and returns the request to apply the result.
pub(crate) fn request_for_edit(
    world: &SandboxTestWorld,
    resource: &Path,
    (resource_type, base): (ResourceType, BaseSource),
    edit: impl FnOnce(&Path),
) -> ApplyRequest {
    let new = world.new_sandbox(resource, resource_type, base);
    let created = world.sandboxes.create(&new).unwrap();
    let mut sandbox = world.sandboxes.open(new.id).unwrap();
    edit(&created.tree);
    let captured = capture(&mut *sandbox);
    ApplyRequest {
        id: apply_id(world),
        plan: new.plan,
        resource: new.resource.clone(),
        resource_type,
        change: RequestedChange::Result {
            sandbox: new.id,
            from: created.base,
            to: captured.tree,
            base_commit: created.base_commit,
        },
        destination: Destination::Current,
        commit: commit_metadata("what the plan did"),
    }
}

pub(crate) fn apply_id(world: &SandboxTestWorld) -> ApplyId {
    world.next_id().parse().unwrap()
}

/// An edit on the commit of a repository.
pub(crate) fn request_on_head(
    world: &SandboxTestWorld,
    repository: &Path,
    edit: impl FnOnce(&Path),
) -> ApplyRequest {
    request_for_edit(
        world,
        repository,
        (ResourceType::GitCheckout, BaseSource::Head),
        edit,
    )
}

/// An edit on a folder.
pub(crate) fn request_on_folder(
    world: &SandboxTestWorld,
    folder: &Path,
    edit: impl FnOnce(&Path),
) -> ApplyRequest {
    request_for_edit(
        world,
        folder,
        (ResourceType::FsDirectory, BaseSource::Head),
        edit,
    )
}

pub(crate) fn with_destination(request: ApplyRequest, destination: Destination) -> ApplyRequest {
    ApplyRequest {
        destination,
        ..request
    }
}

pub(crate) fn prepare_ready(targets: &LocalTargets, request: &ApplyRequest) -> ApplyIntent {
    match targets.prepare(request).unwrap() {
        PrepareOutcome::Ready(intent) => *intent,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn prepare_blocked(targets: &LocalTargets, request: &ApplyRequest) -> Vec<Conflict> {
    match targets.prepare(request).unwrap() {
        PrepareOutcome::Blocked(conflicts) => conflicts,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn commit_done(targets: &LocalTargets, intent: &ApplyIntent) -> AppliedResult {
    match targets.commit(intent).unwrap() {
        CommitOutcome::Done(applied) => applied,
        CommitOutcome::Stopped(stopped) => panic!("{stopped:?}"),
    }
}

/// Prepares and commits; both must succeed.
pub(crate) fn prepare_and_commit(
    targets: &LocalTargets,
    request: &ApplyRequest,
) -> (ApplyIntent, AppliedResult) {
    let intent = prepare_ready(targets, request);
    let applied = commit_done(targets, &intent);
    (intent, applied)
}

/// Returns paths and reasons only.
pub(crate) fn path_reasons(conflicts: &[Conflict]) -> Vec<(String, ConflictReason)> {
    let message = conflicts.iter().map(|conflict| {
        let path = conflict.path.as_ref().map(ToString::to_string);
        (path.unwrap_or_default(), conflict.reason.clone())
    });
    message.collect()
}

pub(crate) fn absolute(path: &Path) -> AbsolutePath {
    use std::os::unix::ffi::OsStrExt;
    AbsolutePath::from_bytes(path.as_os_str().as_bytes()).unwrap()
}

/// Returns the status of a repository. Asserts that nothing is broken or left over.
pub(crate) fn check_health(world: &SandboxTestWorld, repository: &Path) -> String {
    world.git(repository, &["fsck", "--full", "--strict", "--no-dangling"]);
    let left: Vec<PathBuf> = find_leftovers(repository);
    assert_eq!(left, Vec::<PathBuf>::new());
    let git_dir = world.git(repository, &["rev-parse", "--absolute-git-dir"]);
    assert!(!Path::new(&git_dir).join("index.lock").exists());
    // The index is up to date: git need not read a file again to see that.
    world.git(repository, &["status", "--porcelain"])
}

/// Returns files of ours in a user's folder.
pub(crate) fn find_leftovers(folder: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(".agents-") {
                left.push(entry.path());
            }
            let is_keep = entry.path().extension().is_some_and(|it| it == "keep");
            if is_keep {
                left.push(entry.path());
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    left
}

/// The same request as another apply.
pub(crate) fn with_new_id(world: &SandboxTestWorld, request: &ApplyRequest) -> ApplyRequest {
    ApplyRequest {
        id: apply_id(world),
        ..request.clone()
    }
}

/// Creates a program with this text. Another process writes it, so that no process started meanwhile
/// has it open, which would prevent it from being run.
pub(crate) fn write_program(world: &SandboxTestWorld, name: &str, text: &str) -> PathBuf {
    let (draft, path) = (world.path(&format!("{name}.draft")), world.path(name));
    script(&draft, text);
    let arguments = ["-p", draft.to_str().unwrap(), path.to_str().unwrap()];
    let copied = world.command(Path::new("/"), "cp", &arguments);
    assert!(copied.status.success());
    path
}
