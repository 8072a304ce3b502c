//! One commit on the checked-out branch.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::targets::{
    ApplyTargets, CommitOutcome, PrepareOutcome, RequestedChange, TargetError,
};
use cleveragents_sandbox::{ApplyStep, Watcher};

use crate::apply_helpers::{
    absolute, check_health, commit_done, prepare_and_commit, prepare_ready, request_on_head,
    targets, targets_with_watcher,
};
use crate::environment::{SandboxTestWorld, append, link, listing, set_mode, write};

/// Changes files, links and modes, and turns files into folders and back.
fn make_every_kind_of_change(tree: &Path) {
    append(&tree.join("change"), b"2\n");
    fs::remove_dir_all(tree.join("go")).unwrap();
    set_mode(&tree.join("run"), 0o755);
    fs::remove_file(tree.join("was-file")).unwrap();
    write(&tree.join("was-file/inside"), b"2\n");
    fs::remove_dir_all(tree.join("was-folder")).unwrap();
    write(&tree.join("was-folder"), b"2\n");
    fs::rename(tree.join("moves"), tree.join("moved")).unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    link(&tree.join("link"), "change");
    link(&tree.join("new-link"), "/nowhere");
    write(&tree.join("new/empty"), b"");
    write(&tree.join("binary"), b"\0\xff\r\n\0");
}

#[test]
fn a_result_becomes_one_commit_with_its_files_and_index() {
    let world = SandboxTestWorld::new();
    let files = [
        ("keep", "1\n"),
        ("change", "1\n"),
        ("go/deep/away", "1\n"),
        ("run", "1\n"),
        ("was-file", "1\n"),
        ("was-folder/a", "1\n"),
        ("moves", "some lines\nthat are\nkept\n"),
    ];
    let repository = world.repository("user", &files);
    link(&repository.join("link"), "keep");
    world.commit(&repository, &[]);
    let before = world.git(&repository, &["rev-parse", "HEAD"]);
    // The user's own work on other paths: staged, changed and new.
    write(&repository.join("staged"), b"mine\n");
    world.git(&repository, &["add", "staged"]);
    append(&repository.join("keep"), b"mine\n");
    write(&repository.join("untracked"), b"mine\n");
    let own = world.git(&repository, &["status", "--porcelain"]);
    let request = request_on_head(&world, &repository, make_every_kind_of_change);
    let targets = targets(&world);
    let intent = prepare_ready(&targets, &request);
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), before);
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), own);
    let applied = commit_done(&targets, &intent);
    let commit = world.git(&repository, &["rev-parse", "HEAD"]);
    assert_eq!(applied.commit.as_ref(), Some(&commit));
    assert_eq!(applied.reference.as_deref(), Some("refs/heads/main"));
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD^"]), before);
    let text = world.git(&repository, &["log", "-1", "--format=%an <%ae> %ct %s"]);
    assert_eq!(text, "A Plan <plan@localhost> 1700000000 what the plan did");
    assert_eq!(
        world.git(&repository, &["diff-files", "--name-only"]),
        "keep"
    );
    assert_eq!(check_health(&world, &repository), own);
    let found = listing(&repository);
    let kind = |path: &str| found.get(path.as_bytes()).map(|(kind, _)| *kind);
    assert_eq!(kind("go"), None);
    assert_eq!(kind("run"), Some('x'));
    assert_eq!(kind("was-file/inside"), Some('f'));
    assert_eq!(found[&b"was-folder"[..]], ('f', b"2\n".to_vec()));
    assert_eq!(found[&b"link"[..]], ('l', b"change".to_vec()));
    assert_eq!(found[&b"binary"[..]], ('f', b"\0\xff\r\n\0".to_vec()));
    assert_eq!(kind("new/empty"), Some('f'));
    let reflog = world.git(&repository, &["reflog", "-1", "--format=%gs"]);
    assert_eq!(reflog, "agents: apply");
}

#[test]
fn committing_is_idempotent() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let again = prepare_ready(&targets, &request);
    let intent = prepare_ready(&targets, &request);
    assert_eq!(again, intent);
    let applied = commit_done(&targets, &intent);
    assert_eq!(commit_done(&targets, &intent), applied);
    // The user may discard the commit again.
    world.git(&repository, &["reset", "-q", "--hard", "HEAD^"]);
    assert_eq!(commit_done(&targets, &intent), applied);
    assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n");
    let PrepareOutcome::Ready(known) = targets.prepare(&request).unwrap() else {
        panic!("it has begun");
    };
    assert_eq!(*known, intent);
    assert!(matches!(targets.commit(&known), Ok(CommitOutcome::Done(_))));
}

#[test]
fn a_change_the_target_already_has_is_nothing() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, |_| {});
    assert_eq!(targets.prepare(&request), Ok(PrepareOutcome::Nothing));
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    world.commit(&repository, &[("a", "1\n2\n")]);
    assert_eq!(targets.prepare(&request), Ok(PrepareOutcome::Nothing));
    assert_eq!(
        world.git(&repository, &["for-each-ref", "refs/cleveragents/apply"]),
        ""
    );
}

#[test]
fn concurrent_commits_are_merged() {
    let world = SandboxTestWorld::new();
    let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let repository = world.repository("user", &[("a", lines), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        write(&tree.join("a"), lines.replace('9', "nine").as_bytes());
    });
    world.commit(
        &repository,
        &[("a", &lines.replace('1', "one")), ("c", "new\n")],
    );
    let targets = targets(&world);
    prepare_and_commit(&targets, &request);
    let merged = lines.replace('1', "one").replace('9', "nine");
    assert_eq!(fs::read(repository.join("a")).unwrap(), merged.as_bytes());
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "3"
    );
    assert_eq!(check_health(&world, &repository), "");
}

#[derive(Debug, Default)]
struct StepRecorder(Mutex<BTreeSet<ApplyStep>>);

impl Watcher for StepRecorder {
    fn reached(&self, step: ApplyStep) {
        self.0.lock().unwrap().insert(step);
    }
}

/// The list of steps that the crash matrix uses is complete.
#[test]
fn every_step_is_reached() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let listener = Arc::new(StepRecorder::default());
    let watcher = Arc::clone(&listener) as Arc<dyn Watcher>;
    let targets = targets_with_watcher(&world.path("data"), &world.path("home"), watcher);
    prepare_and_commit(&targets, &request);
    let reached = listener.0.lock().unwrap();
    assert!(reached.iter().eq(ApplyStep::ALL.iter()), "{reached:?}");
}

#[test]
fn a_superseded_intent_is_not_committed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let targets = targets(&world);
    let first = prepare_ready(&targets, &request);
    world.commit(&repository, &[("b", "1\n")]);
    let second = prepare_ready(&targets, &request);
    let error = targets.commit(&first).unwrap_err();
    assert_eq!(error, TargetError::Superseded { id: request.id });
    // The sandbox is no longer needed.
    if let RequestedChange::Result { sandbox, .. } = &request.change {
        world.sandboxes.discard(*sandbox).unwrap();
    }
    world.git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    commit_done(&targets, &second);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn the_author_comes_from_the_users_settings() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let targets = targets(&world);
    assert_eq!(targets.author(&absolute(&repository)), Ok(None));
    world.git(&repository, &["config", "--global", "user.name", "Global"]);
    world.git(
        &repository,
        &["config", "--global", "user.email", "global@localhost"],
    );
    world.git(&repository, &["config", "user.name", "Local"]);
    let author = targets.author(&absolute(&repository)).unwrap().unwrap();
    assert_eq!(
        (author.name.as_str(), author.email.as_str()),
        ("Local", "global@localhost")
    );
    assert_eq!(targets.author(&absolute(&world.path("home"))), Ok(None));
}
