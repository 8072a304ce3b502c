//! Every kind of working tree in which a branch can be checked out.

use std::fs;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::targets::{
    ApplyEffect, ApplyTargets, CommitOutcome, ConflictReason, Destination, TargetError,
};

use crate::apply_helpers::{
    absolute, check_health, commit_done, path_reasons, prepare_and_commit, prepare_blocked,
    prepare_ready, request_for_edit, request_on_head, targets, with_destination, write_program,
};
use crate::environment::{SandboxTestWorld, append, listing, script, set_mode, write};

#[test]
fn a_branch_checked_out_twice_is_updated_in_both_places() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let linked = world.path("linked");
    let path = linked.to_str().unwrap();
    world.git(&repository, &["worktree", "add", "-q", "-f", path, "main"]);
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    append(&linked.join("a"), b"mine\n");
    let conflicts = prepare_blocked(&targets, &request);
    assert_eq!(
        path_reasons(&conflicts),
        [("a".into(), ConflictReason::Changed)]
    );
    assert_eq!(conflicts[0].place, Some(absolute(&linked)));
    world.git(&linked, &["checkout", "-q", "a"]);
    append(&linked.join("b"), b"mine\n");
    prepare_and_commit(&targets, &request);
    assert_eq!(fs::read(linked.join("a")).unwrap(), b"1\n2\n");
    assert_eq!(check_health(&world, &linked), " M b");
    assert_eq!(check_health(&world, &repository), "");
    // From the linked working tree to the main one.
    let request = request_on_head(&world, &linked, |tree| append(&tree.join("a"), b"3\n"));
    prepare_and_commit(&targets, &request);
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n2\n3\n");
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(check_health(&world, &linked), " M b");
    // A removed but not yet pruned working tree does not count; a locked one that is out of reach
    // does.
    fs::rename(&linked, world.path("away")).unwrap();
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"4\n"));
    let locked = repository.join(".git/worktrees/linked/locked");
    write(&locked, b"");
    let conflicts = prepare_blocked(&targets, &request);
    assert_eq!(
        path_reasons(&conflicts),
        [(String::new(), ConflictReason::Missing)]
    );
    fs::remove_file(locked).unwrap();
    prepare_and_commit(&targets, &request);
}

#[test]
fn switching_or_checking_out_the_branch_stops_the_apply() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    world.git(&repository, &["branch", "other"]);
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let intent = prepare_ready(&targets, &request);
    world.git(&repository, &["checkout", "-q", "other"]);
    let Ok(CommitOutcome::Stopped(stopped)) = targets.commit(&intent) else {
        panic!();
    };
    let reference = || "main".to_owned();
    let away = ConflictReason::SwitchedAway {
        reference: reference(),
    };
    assert_eq!(path_reasons(&stopped.conflicts), [(String::new(), away)]);
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n");
    let linked = world.path("linked");
    world.git(&repository, &["checkout", "-q", "main"]);
    let path = linked.to_str().unwrap();
    world.git(&repository, &["worktree", "add", "-q", "-f", path, "main"]);
    let Ok(CommitOutcome::Stopped(stopped)) = targets.commit(&intent) else {
        panic!();
    };
    let out = ConflictReason::CheckedOut {
        reference: reference(),
    };
    assert_eq!(path_reasons(&stopped.conflicts), [(String::new(), out)]);
    assert_eq!(stopped.written, []);
    world.git(&repository, &["worktree", "remove", path]);
    commit_done(&targets, &intent);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_detached_head_stays_detached() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    world.git(&repository, &["checkout", "-q", "--detach"]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let (_, applied) = prepare_and_commit(&targets(&world), &request);
    assert_eq!(applied.reference, None);
    assert_eq!(
        applied.commit,
        Some(world.git(&repository, &["rev-parse", "HEAD"]))
    );
    assert!(
        !world
            .try_git(&repository, &["symbolic-ref", "-q", "HEAD"])
            .status
            .success()
    );
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "main"]),
        "1"
    );
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn the_first_commit_of_a_repository() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    write(&repository.join("mine"), b"mine\n");
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("a"), b"1\n"));
    let targets = targets(&world);
    let (_, applied) = prepare_and_commit(&targets, &request);
    assert_eq!(applied.reference.as_deref(), Some("refs/heads/main"));
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "1"
    );
    assert_eq!(check_health(&world, &repository), "?? mine");
    // Uncommitted files are never merged into, not even before the first commit.
    let repository = world.init("second", &[]);
    write(&repository.join("mine"), b"mine\n");
    let kind = (ResourceType::GitCheckout, BaseSource::Worktree);
    let request = request_for_edit(&world, &repository, kind, |tree| {
        append(&tree.join("mine"), b"2\n")
    });
    let conflicts = prepare_blocked(&targets, &request);
    let kind = "modify/delete".to_owned();
    assert_eq!(
        path_reasons(&conflicts),
        [("mine".into(), ConflictReason::Merge { kind })]
    );
}

#[test]
fn sha256_repositories() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &["--object-format=sha256"]);
    world.commit(&repository, &[("a", "1\n"), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
    });
    let (_, applied) = prepare_and_commit(&targets(&world), &request);
    assert_eq!(applied.commit.unwrap().len(), 64);
    assert_eq!(check_health(&world, &repository), "");
    assert!(!repository.join("b").exists());
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("in/a", "1\n"), ("out/b", "1\n"), ("out/c", "1\n")],
    );
    world.git(&repository, &["sparse-checkout", "set", "in"]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("in/a"), b"2\n");
        append(&tree.join("out/b"), b"2\n");
        fs::remove_file(tree.join("out/c")).unwrap();
    });
    prepare_and_commit(&targets(&world), &request);
    assert!(!repository.join("out").exists());
    assert_eq!(fs::read(repository.join("in/a")).unwrap(), b"1\n2\n");
    assert_eq!(world.git(&repository, &["show", "HEAD:out/b"]), "1\n2");
    assert_eq!(check_health(&world, &repository), "");
    world.git(&repository, &["sparse-checkout", "disable"]);
    assert_eq!(fs::read(repository.join("out/b")).unwrap(), b"1\n2\n");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn line_ends_follow_the_users_settings() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    world.git(&repository, &["config", "core.autocrlf", "true"]);
    world.commit(
        &repository,
        &[("a", "1\r\n2\r\n"), ("b", "1\r\n"), ("c", "1\r\n")],
    );
    // To git this is the same file, whatever its line endings.
    write(&repository.join("b"), b"1\n");
    assert_eq!(world.git(&repository, &["diff", "--name-only"]), "");
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"3\r\n");
        append(&tree.join("b"), b"2\r\n");
        write(&tree.join("new"), b"1\r\n");
    });
    prepare_and_commit(&targets(&world), &request);
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\r\n2\r\n3\r\n");
    assert_eq!(fs::read(repository.join("b")).unwrap(), b"1\r\n2\r\n");
    assert_eq!(fs::read(repository.join("new")).unwrap(), b"1\r\n");
    assert_eq!(world.git(&repository, &["show", "HEAD:new"]), "1");
    assert_eq!(check_health(&world, &repository), "");
    append(&repository.join("c"), b"mine\n");
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("c"), b"2\r\n")
    });
    let conflicts = prepare_blocked(&targets(&world), &request);
    assert_eq!(
        path_reasons(&conflicts),
        [("c".into(), ConflictReason::Changed)]
    );
}

#[test]
fn ignored_modes_are_not_compared() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    world.git(&repository, &["config", "core.fileMode", "false"]);
    set_mode(&repository.join("a"), 0o755);
    set_mode(&repository.join("b"), 0o600);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        append(&tree.join("b"), b"2\n");
    });
    prepare_and_commit(&targets(&world), &request);
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n2\n");
    assert_eq!(check_health(&world, &repository), "");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(repository.join("b")).unwrap().permissions(),
    );
    assert_eq!(
        mode & 0o777,
        0o600,
        "who may read a file is the user's choice"
    );
}

#[test]
fn hooks_and_helpers_of_the_repository_do_not_run() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let mark = world.path("mark");
    let text = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in [
        "post-index-change",
        "reference-transaction",
        "post-commit",
        "pre-commit",
    ] {
        script(&repository.join(".git/hooks").join(hook), &text);
    }
    script(&repository.join(".git/monitor"), &text);
    let monitor = repository.join(".git/monitor");
    let monitor = monitor.to_str().unwrap();
    world.git(&repository, &["config", "core.fsmonitor", monitor]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let _ = fs::remove_file(&mark);
    prepare_and_commit(&targets(&world), &request);
    assert!(!mark.exists());
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n2\n");
}

#[test]
fn commits_are_signed_if_the_user_signs() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    world.git(&repository, &["config", "commit.gpgSign", "true"]);
    let text = "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho signature\n";
    let signer = write_program(&world, "sign", text);
    world.git(
        &repository,
        &[
            "config",
            "--global",
            "gpg.program",
            signer.to_str().unwrap(),
        ],
    );
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    prepare_and_commit(&targets, &request);
    let commit = world.git(&repository, &["cat-file", "commit", "HEAD"]);
    assert!(commit.contains("gpgsig signature"), "{commit}");
    write_program(&world, "sign", "#!/bin/sh\necho no such key >&2\nexit 2\n");
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"3\n"));
    let error = targets.prepare(&request).unwrap_err();
    assert!(matches!(error, TargetError::Signing { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("git config commit.gpgSign false"),
        "{error}"
    );
    // A repository that turns signing off again gets unsigned commits.
    world.git(
        &repository,
        &["config", "--global", "commit.gpgSign", "true"],
    );
    world.git(&repository, &["config", "commit.gpgSign", "false"]);
    prepare_and_commit(&targets, &request);
}

#[test]
fn a_foreign_lock_is_reported_to_the_caller() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let intent = prepare_ready(&targets, &request);
    let lock = repository.join(".git/index.lock");
    write(&lock, b"somebody's");
    let error = targets.commit(&intent).unwrap_err();
    assert!(matches!(&error, TargetError::Busy { lock: named } if *named == lock));
    assert!(error.is_temporary());
    assert_eq!(fs::read(&lock).unwrap(), b"somebody's");
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n");
    fs::remove_file(lock).unwrap();
    commit_done(&targets, &intent);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_file_of_over_100_megabytes() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let size = (100 << 20) + 17;
    let request = request_on_head(&world, &repository, |tree| {
        let file = fs::File::create(tree.join("big")).unwrap();
        file.set_len(size).unwrap();
    });
    prepare_and_commit(&targets(&world), &request);
    assert_eq!(fs::metadata(repository.join("big")).unwrap().len(), size);
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), "");
    let stored = world.git(&repository, &["cat-file", "-s", "HEAD:big"]);
    assert_eq!(stored, size.to_string());
}

#[test]
fn unknown_versions_and_forgotten_intents_are_refused() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let mut intent = prepare_ready(&targets, &request);
    intent.version = 2;
    let error = targets.commit(&intent).unwrap_err();
    assert!(
        matches!(error, TargetError::Version { found: 2, .. }),
        "{error}"
    );
    intent.version = 1;
    targets.discard_prepared(&intent).unwrap();
    targets.discard_prepared(&intent).unwrap();
    let error = targets.commit(&intent).unwrap_err();
    assert!(matches!(error, TargetError::Forgotten { .. }), "{error}");
    let intent = prepare_ready(&targets, &request);
    commit_done(&targets, &intent);
    let error = targets.discard_prepared(&intent).unwrap_err();
    assert!(
        matches!(error, TargetError::AlreadyStarted { .. }),
        "{error}"
    );
    targets.forget(intent.id).unwrap();
    targets.forget(intent.id).unwrap();
    assert_eq!(
        world.git(&repository, &["for-each-ref", "refs/cleveragents/apply"]),
        ""
    );
    assert_eq!(listing(&world.path("data/applies")).len(), 0);
    let ApplyEffect::Commit(effect) = &intent.effect else {
        panic!();
    };
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), effect.new);
    let there = with_destination(request, Destination::Branch("x".into()));
    assert!(targets.prepare(&there).is_ok());
}
