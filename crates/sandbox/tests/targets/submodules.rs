//! Submodules that a plan removes: the commit has no entry of them, and their files stay as in git.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Base, ResourceType};
use cleveragents_engine::ports::sandbox::{Sandboxes, Touched};
use cleveragents_engine::ports::stop::Stop;
use cleveragents_engine::ports::targets::{
    Aborted, ApplyRequest, ConflictReason, Destination, IfGone, RequestedChange, Targets,
};

use crate::crashes::CARRYING_OUT;
use crate::dying::{Deed, End, Snapshot, at_every_step, die};
use crate::environment::{World, append, capture, listing, write};
use crate::home::{
    absolute, apply_id, blocked, bring_home, check_health, done, on_head, ready, targets, to, told,
    words,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folder {
    /// As after a plain clone.
    Empty,
    /// Checked out, with uncommitted work of the user's.
    InUse,
}

/// A repository with a submodule in a folder of its own.
fn user(world: &World, folder: Folder) -> PathBuf {
    let inner = world.repository("inner", &[("i", "1\n")]);
    let repository = world.repository("user", &[("a", "1\n")]);
    let url = inner.to_str().unwrap();
    let allow = "protocol.file.allow=always";
    let add = ["-c", allow, "submodule", "-q", "add", url, "deps/sub"];
    world.git(&repository, &add);
    world.commit(&repository, &[]);
    match folder {
        Folder::Empty => {
            let leave = ["submodule", "-q", "deinit", "--all", "--force"];
            world.git(&repository, &leave);
            assert!(is_empty(&repository.join("deps/sub")));
        }
        Folder::InUse => {
            append(&repository.join("deps/sub/i"), b"mine\n");
            write(&repository.join("deps/sub/new"), b"mine\n");
        }
    }
    repository
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// What a plan does that removes the submodule.
fn remove(tree: &Path) {
    fs::remove_dir_all(tree.join("deps")).unwrap();
    fs::remove_file(tree.join(".gitmodules")).unwrap();
    append(&tree.join("a"), b"2\n");
}

/// The same repository in another place, to do there with git what is done with a plan.
fn twin(world: &World) -> PathBuf {
    let (from, to) = (world.path("user"), world.path("twin"));
    let arguments = ["-a", from.to_str().unwrap(), to.to_str().unwrap()];
    let copied = world.command(Path::new("/"), "cp", &arguments);
    assert!(copied.status.success());
    to
}

/// Git takes the twin to the commit of the user's repository, and both must be the same to it.
#[track_caller]
fn assert_as_git_does(world: &World, repository: &Path, twin: &Path) {
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
fn a_removal_and_its_reversal_are_what_git_makes_of_the_same_commits() {
    for folder in [Folder::Empty, Folder::InUse] {
        let world = World::new();
        let repository = user(&world, folder);
        let twin = twin(&world);
        let before = listing(&repository);
        let request = on_head(&world, &repository, remove);
        let targets = targets(&world);
        let (intent, _) = bring_home(&targets, &request);
        let entries = world.git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(entries, "a", "{folder:?}");
        assert_as_git_does(&world, &repository, &twin);
        let status = check_health(&world, &repository);
        match folder {
            Folder::Empty => {
                assert!(!repository.join("deps").exists());
                assert_eq!(status, "");
            }
            Folder::InUse => {
                let work = fs::read_to_string(repository.join("deps/sub/i")).unwrap();
                assert_eq!(work, "1\nmine\n");
                assert_eq!(status, "?? deps/");
            }
        }
        let reverse = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
        let (undone, _) = bring_home(&targets, &reverse);
        let entries = world.git(&repository, &["ls-files", "--stage", "deps/sub"]);
        assert!(entries.starts_with("160000 "), "{folder:?}: {entries}");
        assert_as_git_does(&world, &repository, &twin);
        assert_eq!(listing(&repository), before, "{folder:?}");
        // And once more, from what the reversal left.
        let again = ApplyRequest::reverse(apply_id(&world), &undone, words("again"));
        bring_home(&targets, &again);
        assert_as_git_does(&world, &repository, &twin);
    }
}

#[test]
fn every_destination_removes_it_or_says_why_not() {
    let world = World::new();
    let repository = user(&world, Folder::InUse);
    let targets = targets(&world);
    let before = listing(&repository);
    let request = |destination| to(on_head(&world, &repository, remove), destination);
    bring_home(&targets, &request(Destination::Branch("topic".into())));
    let entries = ["ls-tree", "-r", "--name-only", "topic"];
    assert_eq!(world.git(&repository, &entries), "a");
    // With its files there git would see no removal while the index has the entry.
    let conflicts = blocked(&targets, &request(Destination::Worktree));
    let in_the_way = ("deps/sub".to_owned(), ConflictReason::SubmoduleFiles);
    assert_eq!(told(&conflicts), [in_the_way]);
    assert_eq!(listing(&repository), before);
    let patch = world.path("patch");
    bring_home(&targets, &request(Destination::Patch(absolute(&patch))));
    let twin = twin(&world);
    // The copies of the files are new to the copy of the index.
    world.git(&twin, &["update-index", "-q", "--refresh"]);
    let apply = ["apply", "--index", patch.to_str().unwrap()];
    world.git(&twin, &apply);
    let tree = world.git(&repository, &["rev-parse", "topic^{tree}"]);
    assert_eq!(world.git(&twin, &["write-tree"]), tree);
}

#[test]
fn in_the_work_tree_alone_an_empty_folder_goes_and_comes_back() {
    let world = World::new();
    let repository = user(&world, Folder::Empty);
    let before = listing(&repository);
    let request = on_head(&world, &repository, remove);
    let targets = targets(&world);
    let (intent, _) = bring_home(&targets, &to(request, Destination::Worktree));
    assert!(!repository.join("deps").exists());
    let status = world.git(&repository, &["status", "--porcelain"]);
    let lines: Vec<&str> = status.lines().map(str::trim).collect();
    assert_eq!(lines, ["D .gitmodules", "M a", "D deps/sub"]);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
    bring_home(&targets, &reverse);
    assert_eq!(listing(&repository), before);
    assert_eq!(check_health(&world, &repository), "");
}

/// A plan that removes the submodule and then puts files of its own in the same place.
fn replaced(world: &World, repository: &Path, name: &str) -> ApplyRequest {
    let kind = ResourceType::GitCheckout;
    let new = world.new_sandbox(repository, kind, Base::Head);
    let created = world.sandboxes.create(&new).unwrap();
    let mut sandbox = world.sandboxes.open(new.id).unwrap();
    remove(&created.tree);
    let removed = capture(&mut *sandbox);
    write(&created.tree.join(name), b"2\n");
    let touched = Touched::Unknown;
    let captured = sandbox.capture(&removed.tree, &touched, &Stop::new());
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
        commit: words("what the plan did"),
    }
}

#[test]
fn files_in_its_place_are_never_written_among_the_users() {
    for folder in [Folder::Empty, Folder::InUse] {
        let world = World::new();
        let repository = user(&world, folder);
        let twin = twin(&world);
        let targets = targets(&world);
        let request = replaced(&world, &repository, "deps/sub/own");
        if folder == Folder::InUse {
            let before = listing(&repository);
            let conflicts = blocked(&targets, &request);
            let in_the_way = ("deps/sub/own".to_owned(), ConflictReason::SubmoduleFiles);
            assert_eq!(told(&conflicts), [in_the_way]);
            assert_eq!(listing(&repository), before);
            continue;
        }
        let (intent, _) = bring_home(&targets, &request);
        assert_eq!(fs::read(repository.join("deps/sub/own")).unwrap(), b"2\n");
        assert_as_git_does(&world, &repository, &twin);
        let reverse = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
        bring_home(&targets, &reverse);
        assert!(is_empty(&repository.join("deps/sub")));
        assert_as_git_does(&world, &repository, &twin);
        // A file where the submodule was is neither a removal nor a file that was there.
        let conflicts = blocked(&targets, &replaced(&world, &repository, "deps/sub"));
        let refused = ("deps/sub".to_owned(), ConflictReason::Submodule);
        assert_eq!(told(&conflicts), [refused]);
    }
}

#[test]
fn a_plan_cannot_add_one() {
    let world = World::new();
    let repository = user(&world, Folder::Empty);
    let with = world.git(&repository, &["rev-parse", "HEAD^{tree}"]);
    let without = world.git(&repository, &["rev-parse", "HEAD^^{tree}"]);
    world.git(&repository, &["reset", "-q", "--hard", "HEAD^"]);
    let mut request = on_head(&world, &repository, |_| {});
    if let RequestedChange::Result { from, to, .. } = &mut request.change {
        (*from, *to) = (without.parse().unwrap(), with.parse().unwrap());
    }
    let conflicts = blocked(&targets(&world), &request);
    let refused = ("deps/sub".to_owned(), ConflictReason::Submodule);
    assert_eq!(told(&conflicts), [refused]);
}

#[test]
fn a_commit_of_it_that_is_staged_is_the_users() {
    let world = World::new();
    let repository = user(&world, Folder::InUse);
    let request = on_head(&world, &repository, remove);
    let commit = world.git(&repository, &["rev-parse", "HEAD"]);
    let entry = format!("160000,{commit},deps/sub");
    world.git(&repository, &["update-index", "--cacheinfo", &entry]);
    let conflicts = blocked(&targets(&world), &request);
    let staged = ("deps/sub".to_owned(), ConflictReason::Staged);
    assert_eq!(told(&conflicts), [staged]);
}

#[test]
fn killed_at_every_step_it_is_finished_or_taken_back() {
    let world = World::new();
    let repository = user(&world, Folder::Empty);
    let intent = ready(&targets(&world), &on_head(&world, &repository, remove));
    let before = listing(&repository);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    done(&targets(&world), &intent);
    let after = listing(&repository);
    let status = check_health(&world, &repository);
    let carry_out = Deed::CarryOut(Box::new(intent.clone()));
    let mut killed = 0;
    at_every_step(CARRYING_OUT, |step, times| {
        let at = format!("{} {times}", step.as_str());
        snapshot.put_back();
        let end = die(&world, &carry_out, step, times);
        killed += usize::from(end == End::Killed);
        match killed % 2 {
            0 => {
                done(&targets(&world), &intent);
                assert_eq!(listing(&repository), after, "{at}");
                assert_eq!(check_health(&world, &repository), status, "{at}");
            }
            _ => match targets(&world).abort(&intent, IfGone::Stop).unwrap() {
                Aborted::TakenBack => assert_eq!(listing(&repository), before, "{at}"),
                Aborted::Done(_) => assert_eq!(listing(&repository), after, "{at}"),
                stopped => panic!("{at}: {stopped:?}"),
            },
        }
        end
    });
    assert!(killed >= 10, "only {killed} were killed");
}
