//! Results that go elsewhere: to a branch, to the files alone, into a patch.

use std::fs;

use cleveragents_engine::ports::targets::{
    ApplyRequest, Carried, ConflictReason, Destination, Effect, Prepared, TargetError, Targets,
};

use crate::environment::{World, append, listing, write};
use crate::home::{
    absolute, apply_id, blocked, bring_home, check_health, done, on_folder, on_head, ready,
    renamed, targets, to, told, words,
};

fn branch(name: &str) -> Destination {
    Destination::Branch(name.to_owned())
}

#[test]
fn a_new_branch_begins_where_the_plan_did() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let base = world.git(&repository, &["rev-parse", "HEAD"]);
    let request = on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    world.commit(&repository, &[("b", "later\n")]);
    append(&repository.join("a"), b"mine\n");
    let (files, head) = (
        listing(&repository),
        world.git(&repository, &["rev-parse", "HEAD"]),
    );
    let request = to(request, branch("topic/one"));
    let (intent, applied) = bring_home(&targets(&world), &request);
    assert_eq!(applied.reference.as_deref(), Some("refs/heads/topic/one"));
    assert_eq!(world.git(&repository, &["rev-parse", "topic/one^"]), base);
    assert_eq!(world.git(&repository, &["show", "topic/one:a"]), "1\n2");
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), head);
    assert_eq!(listing(&repository), files);
    assert_eq!(check_health(&world, &repository), " M a");
    let Effect::Commit(effect) = &intent.effect else {
        panic!();
    };
    assert_eq!((effect.checkouts.len(), intent.changes.len()), (0, 1));
}

#[test]
fn a_branch_that_is_there_is_merged_with_and_its_files_follow() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    world.git(&repository, &["checkout", "-q", "-b", "topic"]);
    world.commit(&repository, &[("b", "topic\n")]);
    world.git(&repository, &["checkout", "-q", "main"]);
    let targets = targets(&world);
    let request = on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    bring_home(&targets, &to(request, branch("topic")));
    assert_eq!(world.git(&repository, &["show", "topic:b"]), "topic");
    assert_eq!(world.git(&repository, &["show", "topic:a"]), "1\n2");
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "3"
    );
    // Checked out elsewhere, its files are changed there, with the same safety.
    let linked = world.path("linked");
    world.git(
        &repository,
        &["worktree", "add", "-q", linked.to_str().unwrap(), "topic"],
    );
    let request = on_head(&world, &repository, |tree| write(&tree.join("c"), b"2\n"));
    let request = to(request, branch("topic"));
    write(&linked.join("c"), b"mine\n");
    let conflicts = blocked(&targets, &request);
    assert_eq!(told(&conflicts), [("c".into(), ConflictReason::Untracked)]);
    fs::remove_file(linked.join("c")).unwrap();
    bring_home(&targets, &request);
    assert_eq!(fs::read(linked.join("c")).unwrap(), b"2\n");
    assert!(!repository.join("c").exists());
    assert_eq!(check_health(&world, &linked), "");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_branch_that_appears_or_moves_meanwhile_is_not_overwritten() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let targets = targets(&world);
    let request = on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let request = to(request, branch("topic"));
    let intent = ready(&targets, &request);
    world.git(&repository, &["branch", "topic"]);
    let Ok(Carried::Stopped(stopped)) = targets.carry_out(&intent) else {
        panic!();
    };
    let reason = &stopped.conflicts[0].reason;
    assert!(matches!(reason, ConflictReason::Moved { reference, .. } if reference == "topic"));
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "1"
    );
    // Nothing had begun, so it can be taken back and prepared anew.
    targets.take_back(&intent).unwrap();
    bring_home(&targets, &request);
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "topic"]),
        "2"
    );
}

#[test]
fn names_that_cannot_be_branches_are_named() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    world.git(&repository, &["branch", "taken/deep"]);
    let request = on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    for name in [
        "", "-x", "HEAD", "a b", "a..b", "a~1", "x.lock", "@{-1}", "a//b", "taken", "main/x",
    ] {
        let error = targets(&world).prepare(&to(request.clone(), branch(name)));
        let Err(TargetError::BranchName { name: named, .. }) = error else {
            panic!("{name}: {error:?}");
        };
        assert_eq!(named, name);
    }
    let error = targets(&world)
        .prepare(&to(request, branch("taken")))
        .unwrap_err();
    let expected = "`taken` cannot be the name of a branch: there is a branch `taken/deep`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_files_alone() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    write(&repository.join("staged"), b"mine\n");
    world.git(&repository, &["add", "staged"]);
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    let request = to(request, Destination::Worktree);
    let targets = targets(&world);
    append(&repository.join("a"), b"mine\n");
    let conflicts = blocked(&targets, &request);
    assert_eq!(told(&conflicts), [("a".into(), ConflictReason::Changed)]);
    write(&repository.join("a"), b"1\n");
    let index = fs::read(repository.join(".git/index")).unwrap();
    let (intent, applied) = bring_home(&targets, &request);
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
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
    bring_home(&targets, &reverse);
    assert_eq!(check_health(&world, &repository), "A  staged");
}

#[test]
fn a_patch_is_a_new_file_that_git_accepts() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let state = world.state_of(&repository);
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::rename(tree.join("b"), tree.join("moved")).unwrap();
        write(&tree.join("binary"), b"\0\xff");
    });
    let file = world.path("out.patch");
    let request = to(request, Destination::Patch(absolute(&file)));
    let targets = targets(&world);
    write(&file, b"mine\n");
    let conflicts = blocked(&targets, &request);
    assert_eq!(told(&conflicts), [(String::new(), ConflictReason::Exists)]);
    fs::remove_file(&file).unwrap();
    let intent = ready(&targets, &request);
    write(&file, b"mine\n");
    let Ok(Carried::Stopped(stopped)) = targets.carry_out(&intent) else {
        panic!();
    };
    assert_eq!(
        told(&stopped.conflicts),
        [(String::new(), ConflictReason::Exists)]
    );
    assert_eq!(fs::read(&file).unwrap(), b"mine\n");
    fs::remove_file(&file).unwrap();
    let applied = done(&targets, &intent);
    assert_eq!(applied.file, Some(absolute(&file)));
    assert_eq!(world.state_of(&repository), state);
    world.git(&repository, &["apply", file.to_str().unwrap()]);
    assert_eq!(
        world.git(&repository, &["status", "--porcelain"]),
        " M a\n D b\n?? binary\n?? moved"
    );
    // Equal is as good as written; reversed, it goes unless somebody changed it.
    let again = ready(&targets, &renamed(&world, &request));
    done(&targets, &again);
    let reverse = |world: &World| ApplyRequest::reverse(apply_id(world), &intent, words("back"));
    append(&file, b"mine\n");
    let conflicts = blocked(&targets, &reverse(&world));
    assert_eq!(told(&conflicts), [(String::new(), ConflictReason::Changed)]);
    let patch = fs::read(&file).unwrap();
    write(&file, patch.strip_suffix(b"mine\n").unwrap());
    bring_home(&targets, &reverse(&world));
    assert!(!file.exists());
    assert_eq!(targets.prepare(&reverse(&world)), Ok(Prepared::Nothing));
    let nowhere = world.path("nowhere/out.patch");
    let error = targets
        .prepare(&to(
            renamed(&world, &request),
            Destination::Patch(absolute(&nowhere)),
        ))
        .unwrap_err();
    assert!(matches!(error, TargetError::PatchFile { .. }), "{error}");
}

#[test]
fn a_folder_has_no_branches_but_can_become_a_patch() {
    let world = World::new();
    let folder = world.path("user");
    write(&folder.join("a"), b"1\n");
    let request = on_folder(&world, &folder, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let error = targets.prepare(&to(request.clone(), branch("x")));
    assert_eq!(error, Err(TargetError::NoBranches));
    let file = world.path("out.patch");
    bring_home(
        &targets,
        &to(request.clone(), Destination::Patch(absolute(&file))),
    );
    let patch = String::from_utf8(fs::read(&file).unwrap()).unwrap();
    assert!(patch.contains("+2\n"), "{patch}");
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"1\n");
    bring_home(
        &targets,
        &to(renamed(&world, &request), Destination::Worktree),
    );
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"1\n2\n");
}
