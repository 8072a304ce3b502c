//! Other destinations: a branch, files alone, a patch.

use std::fs;

use cleveragents_ports::targets::{
    ApplyEffect, ApplyRequest, ApplyTargets, CommitOutcome, ConflictReason, Destination,
    PrepareOutcome, TargetError,
};

use crate::apply_helpers::{
    absolute, apply_id, check_health, commit_done, commit_metadata, path_reasons,
    prepare_and_commit, prepare_blocked, prepare_ready, request_on_folder, request_on_head,
    targets, with_destination, with_new_id,
};
use crate::environment::{SandboxTestWorld, append, listing, write};

fn branch(name: &str) -> Destination {
    Destination::Branch(name.to_owned())
}

#[test]
fn a_new_branch_starts_at_the_plans_base() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let base = world.git(&repository, &["rev-parse", "HEAD"]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    world.commit(&repository, &[("b", "later\n")]);
    append(&repository.join("a"), b"mine\n");
    let (files, head) = (
        listing(&repository),
        world.git(&repository, &["rev-parse", "HEAD"]),
    );
    let request = with_destination(request, branch("topic/one"));
    let (intent, applied) = prepare_and_commit(&targets(&world), &request);
    assert_eq!(applied.reference.as_deref(), Some("refs/heads/topic/one"));
    assert_eq!(world.git(&repository, &["rev-parse", "topic/one^"]), base);
    assert_eq!(world.git(&repository, &["show", "topic/one:a"]), "1\n2");
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), head);
    assert_eq!(listing(&repository), files);
    assert_eq!(check_health(&world, &repository), " M a");
    let ApplyEffect::Commit(effect) = &intent.effect else {
        panic!();
    };
    assert_eq!((effect.checkouts.len(), intent.changes.len()), (0, 1));
}

#[test]
fn an_existing_branch_is_merged_and_its_files_updated() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    world.git(&repository, &["checkout", "-q", "-b", "topic"]);
    world.commit(&repository, &[("b", "topic\n")]);
    world.git(&repository, &["checkout", "-q", "main"]);
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    prepare_and_commit(&targets, &with_destination(request, branch("topic")));
    assert_eq!(world.git(&repository, &["show", "topic:b"]), "topic");
    assert_eq!(world.git(&repository, &["show", "topic:a"]), "1\n2");
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "3"
    );
    // If the branch is checked out elsewhere, its files are changed there, with the same safety.
    let linked = world.path("linked");
    world.git(
        &repository,
        &["worktree", "add", "-q", linked.to_str().unwrap(), "topic"],
    );
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("c"), b"2\n"));
    let request = with_destination(request, branch("topic"));
    write(&linked.join("c"), b"mine\n");
    let conflicts = prepare_blocked(&targets, &request);
    assert_eq!(
        path_reasons(&conflicts),
        [("c".into(), ConflictReason::Untracked)]
    );
    fs::remove_file(linked.join("c")).unwrap();
    prepare_and_commit(&targets, &request);
    assert_eq!(fs::read(linked.join("c")).unwrap(), b"2\n");
    assert!(!repository.join("c").exists());
    assert_eq!(check_health(&world, &linked), "");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_branch_created_or_moved_meanwhile_is_not_overwritten() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let request = with_destination(request, branch("topic"));
    let intent = prepare_ready(&targets, &request);
    world.git(&repository, &["branch", "topic"]);
    let Ok(CommitOutcome::Stopped(stopped)) = targets.commit(&intent) else {
        panic!();
    };
    let reason = &stopped.conflicts[0].reason;
    assert!(matches!(reason, ConflictReason::Moved { reference, .. } if reference == "topic"));
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "1"
    );
    // Nothing had started, so it can be discarded and prepared again.
    targets.discard_prepared(&intent).unwrap();
    prepare_and_commit(&targets, &request);
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "2"
    );
}

#[test]
fn invalid_branch_names_are_refused() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    world.git(&repository, &["branch", "taken/deep"]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    for name in [
        "", "-x", "HEAD", "a b", "a..b", "a~1", "x.lock", "@{-1}", "a//b", "taken", "main/x",
    ] {
        let error = targets(&world).prepare(&with_destination(request.clone(), branch(name)));
        let Err(TargetError::BranchName { name: named, .. }) = error else {
            panic!("{name}: {error:?}");
        };
        assert_eq!(named, name);
    }
    let error = targets(&world)
        .prepare(&with_destination(request, branch("taken")))
        .unwrap_err();
    let expected = "`taken` cannot be the name of a branch: there is a branch `taken/deep`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn only_the_files_are_changed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    write(&repository.join("staged"), b"mine\n");
    world.git(&repository, &["add", "staged"]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    let request = with_destination(request, Destination::Worktree);
    let targets = targets(&world);
    append(&repository.join("a"), b"mine\n");
    let conflicts = prepare_blocked(&targets, &request);
    assert_eq!(
        path_reasons(&conflicts),
        [("a".into(), ConflictReason::Changed)]
    );
    write(&repository.join("a"), b"1\n");
    let index = fs::read(repository.join(".git/index")).unwrap();
    let (intent, applied) = prepare_and_commit(&targets, &request);
    assert_eq!(fs::read(repository.join(".git/index")).unwrap(), index);
    assert_eq!((applied.commit, applied.reference), (None, None));
    assert_eq!(
        check_health(&world, &repository),
        " M a\n D b\nA  staged\n?? new"
    );
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "1"
    );
    // And back, although it is not committed.
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    assert_eq!(check_health(&world, &repository), "A  staged");
}

#[test]
fn a_patch_is_a_new_file_that_git_accepts() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let state = world.state_of(&repository);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::rename(tree.join("b"), tree.join("moved")).unwrap();
        write(&tree.join("binary"), b"\0\xff");
    });
    let file = world.path("out.patch");
    let request = with_destination(request, Destination::Patch(absolute(&file)));
    let targets = targets(&world);
    write(&file, b"mine\n");
    let conflicts = prepare_blocked(&targets, &request);
    let exists = [(String::new(), ConflictReason::Exists)];
    assert_eq!(path_reasons(&conflicts), exists);
    fs::remove_file(&file).unwrap();
    let intent = prepare_ready(&targets, &request);
    write(&file, b"mine\n");
    let Ok(CommitOutcome::Stopped(stopped)) = targets.commit(&intent) else {
        panic!();
    };
    assert_eq!(path_reasons(&stopped.conflicts), exists);
    assert_eq!(fs::read(&file).unwrap(), b"mine\n");
    fs::remove_file(&file).unwrap();
    let applied = commit_done(&targets, &intent);
    assert_eq!(applied.file, Some(absolute(&file)));
    assert_eq!(world.state_of(&repository), state);
    world.git(&repository, &["apply", file.to_str().unwrap()]);
    assert_eq!(
        world.git(&repository, &["status", "--porcelain"]),
        " M a\n D b\n?? binary\n?? moved"
    );
    // An equal file is not written again. A reversal removes it unless it was changed.
    assert_eq!(
        targets.prepare(&with_new_id(&world, &request)),
        Ok(PrepareOutcome::Nothing)
    );
    let reverse = |world: &SandboxTestWorld| {
        ApplyRequest::reverse(apply_id(world), &intent, commit_metadata("back"))
    };
    append(&file, b"mine\n");
    let conflicts = prepare_blocked(&targets, &reverse(&world));
    assert_eq!(
        path_reasons(&conflicts),
        [(String::new(), ConflictReason::Changed)]
    );
    let patch = fs::read(&file).unwrap();
    write(&file, patch.strip_suffix(b"mine\n").unwrap());
    prepare_and_commit(&targets, &reverse(&world));
    assert!(!file.exists());
    assert_eq!(
        targets.prepare(&reverse(&world)),
        Ok(PrepareOutcome::Nothing)
    );
    let nowhere = world.path("nowhere/out.patch");
    let destination = Destination::Patch(absolute(&nowhere));
    let request = with_destination(with_new_id(&world, &request), destination);
    let error = targets.prepare(&request).unwrap_err();
    assert!(matches!(error, TargetError::PatchFile { .. }), "{error}");
}

#[test]
fn a_folder_has_no_branches_but_supports_patches() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    write(&folder.join("a"), b"1\n");
    let request = request_on_folder(&world, &folder, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let error = targets.prepare(&with_destination(request.clone(), branch("x")));
    assert_eq!(error, Err(TargetError::NoBranches));
    let file = world.path("out.patch");
    prepare_and_commit(
        &targets,
        &with_destination(request.clone(), Destination::Patch(absolute(&file))),
    );
    let patch = String::from_utf8(fs::read(&file).unwrap()).unwrap();
    assert!(patch.contains("+2\n"), "{patch}");
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"1\n");
    prepare_and_commit(
        &targets,
        &with_destination(with_new_id(&world, &request), Destination::Worktree),
    );
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"1\n2\n");
}

/// It is there before and after, but the files below it go.
#[test]
fn a_folder_that_the_change_empties_stays() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    fs::create_dir_all(folder.join("kept")).unwrap();
    write(&folder.join("kept/only"), b"1\n");
    let request = request_on_folder(&world, &folder, |tree| {
        fs::remove_file(tree.join("kept/only")).unwrap();
    });
    prepare_and_commit(&targets(&world), &request);
    assert!(folder.join("kept").is_dir());
    assert!(!folder.join("kept/only").exists());
}
