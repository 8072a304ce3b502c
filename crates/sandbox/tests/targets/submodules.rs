//! Submodules that a plan removes: the commit has no entry for them, and as in git their files stay.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{Sandboxes, TouchedPaths};
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{
    ApplyRequest, ApplyTargets, ConflictReason, Destination, MissingTargetPolicy, RequestedChange,
    TargetAbortOutcome,
};

use crate::apply_helpers::{
    absolute, apply_id, check_health, commit_done, commit_metadata, path_reasons,
    prepare_and_commit, prepare_blocked, prepare_ready, request_on_head, targets, with_destination,
};
use crate::crash_process::{CrashAction, FolderSnapshot, ProcessEnd, at_every_step, kill_at_step};
use crate::crashes::COMMIT_STEPS;
use crate::environment::{SandboxTestWorld, append, capture, listing, write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmoduleFolder {
    /// As after a plain clone.
    Empty,
    /// Checked out, with uncommitted work of the user.
    InUse,
}

/// Creates a repository with a submodule in a folder of its own.
fn repository_with_submodule(world: &SandboxTestWorld, folder: SubmoduleFolder) -> PathBuf {
    let inner = world.repository("inner", &[("i", "1\n")]);
    let repository = world.repository("user", &[("a", "1\n")]);
    let url = inner.to_str().unwrap();
    let allow = "protocol.file.allow=always";
    let add = ["-c", allow, "submodule", "-q", "add", url, "deps/sub"];
    world.git(&repository, &add);
    world.commit(&repository, &[]);
    match folder {
        SubmoduleFolder::Empty => {
            let leave = ["submodule", "-q", "deinit", "--all", "--force"];
            world.git(&repository, &leave);
            assert!(is_empty(&repository.join("deps/sub")));
        }
        SubmoduleFolder::InUse => {
            append(&repository.join("deps/sub/i"), b"mine\n");
            write(&repository.join("deps/sub/new"), b"mine\n");
        }
    }
    repository
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The edit of a plan that removes the submodule.
fn remove_submodule(tree: &Path) {
    fs::remove_dir_all(tree.join("deps")).unwrap();
    fs::remove_file(tree.join(".gitmodules")).unwrap();
    append(&tree.join("a"), b"2\n");
}

/// Copies the repository, to do there with git what a plan does in the original.
fn clone_twin(world: &SandboxTestWorld) -> PathBuf {
    let (from, to) = (world.path("user"), world.path("twin"));
    let arguments = ["-a", from.to_str().unwrap(), to.to_str().unwrap()];
    let copied = world.command(Path::new("/"), "cp", &arguments);
    assert!(copied.status.success());
    to
}

/// Moves the twin to the commit of the user's repository with git, and asserts that both are the
/// same.
#[track_caller]
fn assert_as_git_does(world: &SandboxTestWorld, repository: &Path, twin: &Path) {
    let source = repository.to_str().unwrap();
    let fetch = ["fetch", "-q", "--no-recurse-submodules", source, "main"];
    world.git(twin, &fetch);
    world.git(twin, &["merge", "-q", "--ff-only", "FETCH_HEAD"]);
    world.git(repository, &["fsck", "--full", "--strict", "--no-dangling"]);
    for command in [
        &["rev-parse", "HEAD"][..],
        &["ls-files", "--stage"],
        &["status", "--porcelain=v2"],
        &["write-tree"],
    ] {
        let (ours, gits) = (world.git(repository, command), world.git(twin, command));
        assert_eq!(ours, gits, "{command:?}");
    }
    assert_eq!(listing(repository), listing(twin));
}

#[test]
fn removal_and_reversal_match_git() {
    for folder in [SubmoduleFolder::Empty, SubmoduleFolder::InUse] {
        let world = SandboxTestWorld::new();
        let repository = repository_with_submodule(&world, folder);
        let twin = clone_twin(&world);
        let before = listing(&repository);
        let request = request_on_head(&world, &repository, remove_submodule);
        let targets = targets(&world);
        let (intent, _) = prepare_and_commit(&targets, &request);
        let entries = world.git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(entries, "a", "{folder:?}");
        assert_as_git_does(&world, &repository, &twin);
        let status = check_health(&world, &repository);
        match folder {
            SubmoduleFolder::Empty => {
                assert!(!repository.join("deps").exists());
                assert_eq!(status, "");
            }
            SubmoduleFolder::InUse => {
                let work = fs::read_to_string(repository.join("deps/sub/i")).unwrap();
                assert_eq!(work, "1\nmine\n");
                assert_eq!(status, "?? deps/");
            }
        }
        let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
        let (undone, _) = prepare_and_commit(&targets, &reverse);
        let entries = world.git(&repository, &["ls-files", "--stage", "deps/sub"]);
        assert!(entries.starts_with("160000 "), "{folder:?}: {entries}");
        assert_as_git_does(&world, &repository, &twin);
        assert_eq!(listing(&repository), before, "{folder:?}");
        // And once more, from what the reversal left.
        let again = ApplyRequest::reverse(apply_id(&world), &undone, commit_metadata("again"));
        prepare_and_commit(&targets, &again);
        assert_as_git_does(&world, &repository, &twin);
    }
}

#[test]
fn every_destination_removes_the_submodule_or_explains() {
    let world = SandboxTestWorld::new();
    let repository = repository_with_submodule(&world, SubmoduleFolder::InUse);
    let targets = targets(&world);
    let before = listing(&repository);
    let request = |destination| {
        with_destination(
            request_on_head(&world, &repository, remove_submodule),
            destination,
        )
    };
    prepare_and_commit(&targets, &request(Destination::Branch("topic".into())));
    let entries = ["ls-tree", "-r", "--name-only", "topic"];
    assert_eq!(world.git(&repository, &entries), "a");
    // While its files and its index entry exist, git would see no removal.
    let conflicts = prepare_blocked(&targets, &request(Destination::Worktree));
    let in_the_way = ("deps/sub".to_owned(), ConflictReason::SubmoduleFiles);
    assert_eq!(path_reasons(&conflicts), [in_the_way]);
    assert_eq!(listing(&repository), before);
    let patch = world.path("patch");
    prepare_and_commit(&targets, &request(Destination::Patch(absolute(&patch))));
    let twin = clone_twin(&world);
    // The copied index does not know the copied files yet.
    world.git(&twin, &["update-index", "-q", "--refresh"]);
    let apply = ["apply", "--index", patch.to_str().unwrap()];
    world.git(&twin, &apply);
    let tree = world.git(&repository, &["rev-parse", "topic^{tree}"]);
    assert_eq!(world.git(&twin, &["write-tree"]), tree);
}

#[test]
fn an_empty_submodule_folder_is_removed_and_restored() {
    let world = SandboxTestWorld::new();
    let repository = repository_with_submodule(&world, SubmoduleFolder::Empty);
    let before = listing(&repository);
    let request = request_on_head(&world, &repository, remove_submodule);
    let targets = targets(&world);
    let (intent, _) =
        prepare_and_commit(&targets, &with_destination(request, Destination::Worktree));
    assert!(!repository.join("deps").exists());
    let status = world.git(&repository, &["status", "--porcelain"]);
    let lines: Vec<&str> = status.lines().map(str::trim).collect();
    assert_eq!(lines, ["D .gitmodules", "M a", "D deps/sub"]);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    assert_eq!(listing(&repository), before);
    assert_eq!(check_health(&world, &repository), "");
}

/// A plan that removes the submodule and then puts files of its own in the same place.
fn replace_submodule(world: &SandboxTestWorld, repository: &Path, name: &str) -> ApplyRequest {
    let kind = ResourceType::GitCheckout;
    let new = world.new_sandbox(repository, kind, BaseSource::Head);
    let created = world.sandboxes.create(&new).unwrap();
    let mut sandbox = world.sandboxes.open(new.id).unwrap();
    remove_submodule(&created.tree);
    let removed = capture(&mut *sandbox);
    write(&created.tree.join(name), b"2\n");
    let touched = TouchedPaths::Unknown;
    let captured = sandbox.capture(&removed.tree, &touched, &StopSignal::new());
    let captured = captured.unwrap();
    ApplyRequest {
        id: apply_id(world),
        plan: new.plan,
        resource: new.resource.clone(),
        resource_type: kind,
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

#[test]
fn replacement_files_never_mix_with_user_files() {
    for folder in [SubmoduleFolder::Empty, SubmoduleFolder::InUse] {
        let world = SandboxTestWorld::new();
        let repository = repository_with_submodule(&world, folder);
        let twin = clone_twin(&world);
        let targets = targets(&world);
        let request = replace_submodule(&world, &repository, "deps/sub/own");
        if folder == SubmoduleFolder::InUse {
            let before = listing(&repository);
            let conflicts = prepare_blocked(&targets, &request);
            let in_the_way = ("deps/sub/own".to_owned(), ConflictReason::SubmoduleFiles);
            assert_eq!(path_reasons(&conflicts), [in_the_way]);
            assert_eq!(listing(&repository), before);
            continue;
        }
        let (intent, _) = prepare_and_commit(&targets, &request);
        assert_eq!(fs::read(repository.join("deps/sub/own")).unwrap(), b"2\n");
        assert_as_git_does(&world, &repository, &twin);
        let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
        prepare_and_commit(&targets, &reverse);
        assert!(is_empty(&repository.join("deps/sub")));
        assert_as_git_does(&world, &repository, &twin);
        // A file in place of the submodule is neither a removal nor a change of an existing file.
        let conflicts = prepare_blocked(
            &targets,
            &replace_submodule(&world, &repository, "deps/sub"),
        );
        let refused = ("deps/sub".to_owned(), ConflictReason::Submodule);
        assert_eq!(path_reasons(&conflicts), [refused]);
    }
}

#[test]
fn a_plan_cannot_add_a_submodule() {
    let world = SandboxTestWorld::new();
    let repository = repository_with_submodule(&world, SubmoduleFolder::Empty);
    let with = world.git(&repository, &["rev-parse", "HEAD^{tree}"]);
    let without = world.git(&repository, &["rev-parse", "HEAD^^{tree}"]);
    world.git(&repository, &["reset", "-q", "--hard", "HEAD^"]);
    let mut request = request_on_head(&world, &repository, |_| {});
    if let RequestedChange::Result { from, to, .. } = &mut request.change {
        (*from, *to) = (without.parse().unwrap(), with.parse().unwrap());
    }
    let conflicts = prepare_blocked(&targets(&world), &request);
    let refused = ("deps/sub".to_owned(), ConflictReason::Submodule);
    assert_eq!(path_reasons(&conflicts), [refused]);
}

#[test]
fn a_staged_submodule_commit_blocks() {
    let world = SandboxTestWorld::new();
    let repository = repository_with_submodule(&world, SubmoduleFolder::InUse);
    let request = request_on_head(&world, &repository, remove_submodule);
    let commit = world.git(&repository, &["rev-parse", "HEAD"]);
    let entry = format!("160000,{commit},deps/sub");
    world.git(&repository, &["update-index", "--cacheinfo", &entry]);
    let conflicts = prepare_blocked(&targets(&world), &request);
    let staged = ("deps/sub".to_owned(), ConflictReason::Staged);
    assert_eq!(path_reasons(&conflicts), [staged]);
}

#[test]
fn killed_at_every_step_a_removal_finishes_or_aborts() {
    let world = SandboxTestWorld::new();
    let repository = repository_with_submodule(&world, SubmoduleFolder::Empty);
    let intent = prepare_ready(
        &targets(&world),
        &request_on_head(&world, &repository, remove_submodule),
    );
    let before = listing(&repository);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    commit_done(&targets(&world), &intent);
    let after = listing(&repository);
    let status = check_health(&world, &repository);
    let commit = CrashAction::Commit(Box::new(intent.clone()));
    let mut killed = 0;
    at_every_step(COMMIT_STEPS, |step, times| {
        let at = format!("{} {times}", step.as_str());
        snapshot.restore();
        let end = kill_at_step(&world, &commit, step, times);
        killed += usize::from(end == ProcessEnd::Killed);
        match killed % 2 {
            0 => {
                commit_done(&targets(&world), &intent);
                assert_eq!(listing(&repository), after, "{at}");
                assert_eq!(check_health(&world, &repository), status, "{at}");
            }
            _ => match targets(&world)
                .abort(&intent, MissingTargetPolicy::Stop)
                .unwrap()
            {
                TargetAbortOutcome::RolledBack => assert_eq!(listing(&repository), before, "{at}"),
                TargetAbortOutcome::Done(_) => assert_eq!(listing(&repository), after, "{at}"),
                stopped => panic!("{at}: {stopped:?}"),
            },
        }
        end
    });
    assert!(killed >= 10, "only {killed} were killed");
}
