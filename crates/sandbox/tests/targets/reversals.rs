//! Reversing what was applied, with the same safety.

use std::fs;

use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::targets::{
    ApplyRequest, ApplyTargets, ConflictReason, Destination, PrepareOutcome, RequestedChange,
    TargetError,
};

use crate::apply_helpers::{
    apply_id, check_health, commit_metadata, path_reasons, prepare_and_commit, prepare_blocked,
    request_on_head, targets, with_destination,
};
use crate::environment::{SandboxTestWorld, append, write};

#[test]
fn a_commit_is_reversed_by_another_that_keeps_later_work() {
    let world = SandboxTestWorld::new();
    let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let repository = world.repository("user", &[("a", lines), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        write(&tree.join("a"), lines.replace('9', "nine").as_bytes());
        fs::remove_file(tree.join("b")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    let targets = targets(&world);
    let (intent, _) = prepare_and_commit(&targets, &request);
    // The sandbox is gone, and unreferenced objects are collected.
    if let RequestedChange::Result { sandbox, .. } = &request.change {
        world.sandboxes.discard(*sandbox).unwrap();
    }
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    let later = lines.replace('9', "nine").replace('1', "one");
    world.commit(&repository, &[("a", &later), ("mine", "1\n")]);
    let reverse = |world: &SandboxTestWorld| {
        ApplyRequest::reverse(apply_id(world), &intent, commit_metadata("back"))
    };
    append(&repository.join("a"), b"mine\n");
    let conflicts = prepare_blocked(&targets, &reverse(&world));
    assert_eq!(
        path_reasons(&conflicts),
        [("a".into(), ConflictReason::Changed)]
    );
    world.git(&repository, &["checkout", "-q", "a"]);
    let (undone, _) = prepare_and_commit(&targets, &reverse(&world));
    let text = fs::read_to_string(repository.join("a")).unwrap();
    assert_eq!(text, lines.replace('1', "one"));
    assert_eq!(fs::read(repository.join("b")).unwrap(), b"1\n");
    assert!(!repository.join("new").exists());
    assert_eq!(
        world.git(&repository, &["log", "-1", "--format=%s"]),
        "back"
    );
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(
        targets.prepare(&reverse(&world)),
        Ok(PrepareOutcome::Nothing)
    );
    // The reversal of the reversal.
    let again = ApplyRequest::reverse(apply_id(&world), &undone, commit_metadata("again"));
    prepare_and_commit(&targets, &again);
    assert_eq!(fs::read_to_string(repository.join("a")).unwrap(), later);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn later_work_on_the_same_lines_blocks_a_reversal() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let (intent, _) = prepare_and_commit(&targets, &request);
    world.commit(&repository, &[("a", "3\n")]);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    let kind = "contents".to_owned();
    let conflicts = prepare_blocked(&targets, &reverse);
    assert_eq!(
        path_reasons(&conflicts),
        [("a".into(), ConflictReason::Merge { kind })]
    );
}

#[test]
fn a_reversal_goes_to_the_branch_it_came_from() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let (on_topic, _) = prepare_and_commit(
        &targets,
        &with_destination(request, Destination::Branch("topic".into())),
    );
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("a"), b"3\n"));
    let (on_main, _) = prepare_and_commit(&targets, &request);
    world.git(&repository, &["checkout", "-q", "-b", "other"]);
    for (intent, name) in [(on_topic, "topic"), (on_main, "main")] {
        let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
        let (_, applied) = prepare_and_commit(&targets, &reverse);
        assert_eq!(applied.reference, Some(format!("refs/heads/{name}")));
        assert_eq!(world.git(&repository, &["show", &format!("{name}:a")]), "1");
    }
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"3\n");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn first_commits_and_forgotten_applies_cannot_be_reversed() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("a"), b"1\n"));
    let targets = targets(&world);
    let (intent, _) = prepare_and_commit(&targets, &request);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    assert!(!repository.join("a").exists());
    assert_eq!(world.git(&repository, &["ls-tree", "-r", "HEAD"]), "");
    assert_eq!(check_health(&world, &repository), "");
    world.git(&repository, &["checkout", "-q", "--orphan", "fresh"]);
    world.commit(&repository, &[("b", "1\n")]);
    world.git(&repository, &["branch", "-q", "-D", "main"]);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    let conflicts = prepare_blocked(&targets, &reverse);
    let reason = &conflicts[0].reason;
    assert!(matches!(reason, ConflictReason::Moved { found, .. } if found == "no commit"));
    // Forgotten and collected, it cannot be reversed, and the error says so.
    targets.forget(intent.id).unwrap();
    let pins = world.git(
        &repository,
        &["for-each-ref", "--format=%(refname)", "refs/cleveragents"],
    );
    for pin in pins.lines() {
        world.git(&repository, &["update-ref", "-d", pin]);
    }
    world.git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    let error = targets.prepare(&reverse).unwrap_err();
    assert!(matches!(error, TargetError::Forgotten { .. }), "{error}");
}
