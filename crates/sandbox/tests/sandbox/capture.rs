//! What a capture records, and what it omits by name.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use cleveragents_domain::{ChangeEntry, FileOperation};
use cleveragents_ports::sandbox::{
    Capture, CommitMetadata, OmissionReason, OmittedPath, Sandbox, Sandboxes, TouchedPaths, TreeId,
};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{
    SandboxTestWorld, append, capture, link, os, path, paths, set_mode, write,
};

fn operations(capture: &Capture) -> Vec<(String, FileOperation)> {
    let changes = capture.changes.iter();
    changes
        .map(|it| (it.path.to_string(), it.operation.clone()))
        .collect()
}

/// Every change must satisfy the domain's own rules.
fn assert_valid(capture: &Capture) {
    for change in &capture.changes {
        let entry = ChangeEntry {
            sequence: 1,
            path: change.path.clone(),
            operation: change.operation.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            tool_call_id: "01JZZZZZZZ0000000000000001".parse().unwrap(),
            actor: "builtin/direct".parse().unwrap(),
            step: None,
        };
        assert_eq!(entry.validate(), Ok(()), "{change:?}");
    }
}

/// Makes one change of each kind.
fn change_everything(tree: &Path) {
    append(&tree.join("a"), b"2\n");
    fs::remove_file(tree.join("gone")).unwrap();
    set_mode(&tree.join("mode"), 0o755);
    fs::create_dir(tree.join("sub")).unwrap();
    fs::rename(tree.join("old"), tree.join("sub/new")).unwrap();
    fs::remove_file(tree.join("to-link")).unwrap();
    link(&tree.join("to-link"), "/etc/passwd");
    fs::remove_dir_all(tree.join("dir")).unwrap();
    write(&tree.join("dir"), b"a file now\n");
    write(&tree.join(os(b"odd \xff\n\"name")), b"");
}

/// Checks the reported states of files before and after.
fn assert_states(captured: &Capture) {
    let state = |bytes: &[u8], mode| {
        (
            blake3::hash(bytes).to_hex().to_string(),
            bytes.len() as u64,
            mode,
        )
    };
    let message = |at: usize| {
        let of = |it: &cleveragents_domain::FileState| (it.hash.clone(), it.size, it.mode);
        let change = &captured.changes[at];
        (
            change.before.as_ref().map(of),
            change.after.as_ref().map(of),
        )
    };
    assert_eq!(
        message(0),
        (
            Some(state(b"1\n", 0o100_644)),
            Some(state(b"1\n2\n", 0o100_644))
        )
    );
    assert_eq!(message(3), (Some(state(b"gone\n", 0o100_644)), None));
    assert_eq!(
        message(4),
        (
            Some(state(b"m\n", 0o100_644)),
            Some(state(b"m\n", 0o100_755))
        )
    );
    assert_eq!(message(7).1, Some(state(b"/etc/passwd", 0o120_000)));
}

#[test]
fn every_kind_of_change_is_reported_with_its_states() {
    let world = SandboxTestWorld::new();
    let files = [
        ("a", "1\n"),
        ("gone", "gone\n"),
        ("mode", "m\n"),
        ("old", "moved\n"),
        ("to-link", "l\n"),
        ("dir/x", "x\n"),
    ];
    let repository = world.repository("user", &files);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    change_everything(tree);
    let captured = capture(&mut *sandbox);
    assert_valid(&captured);
    let from = path("old");
    let expected = [
        ("a", FileOperation::Modify),
        ("dir", FileOperation::Create),
        ("dir/x", FileOperation::Delete),
        ("gone", FileOperation::Delete),
        ("mode", FileOperation::Mode),
        ("odd %FF%0A\"name", FileOperation::Create),
        ("sub/new", FileOperation::Rename { from }),
        ("to-link", FileOperation::Modify),
    ];
    assert_eq!(
        operations(&captured),
        expected.map(|(path, it)| (path.to_owned(), it))
    );
    assert_states(&captured);
    assert_eq!(captured.omitted, []);
    // Compared with itself nothing has changed, whatever paths are touched.
    for touched in [
        TouchedPaths::Unknown,
        TouchedPaths::Paths(paths(&["a", "dir", "absent/x"])),
    ] {
        let again = sandbox
            .capture(&captured.tree, &touched, &StopSignal::new())
            .unwrap();
        assert_eq!(
            (again.tree, again.changes),
            (captured.tree.clone(), Vec::new())
        );
    }
}

#[test]
fn paths_that_cannot_be_captured_are_named() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("tracked", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();
    assert!(world.command(tree, "mkfifo", &["fifo"]).status.success());
    fs::remove_file(tree.join("tracked")).unwrap();
    assert!(world.command(tree, "mkfifo", &["tracked"]).status.success());
    world.git(tree, &["init", "-q", "nested"]);
    write(&tree.join("nested/n"), b"captured\n");
    write(&tree.join("other/.GIT/config"), b"1\n");
    write(&tree.join("git~1"), b"1\n");
    link(&tree.join(".gitmodules"), "a");
    let captured = capture(&mut *sandbox);
    let expected = [
        (".gitmodules", OmissionReason::Name),
        ("fifo", OmissionReason::Fifo),
        ("git~1", OmissionReason::Name),
        ("nested/.git", OmissionReason::NestedRepository),
        ("other/.GIT", OmissionReason::Name),
        ("socket", OmissionReason::Socket),
        ("tracked", OmissionReason::Fifo),
    ];
    let expected = expected.map(|(text, why)| OmittedPath {
        path: path(text),
        why,
    });
    assert_eq!(captured.omitted, expected);
    let expected = [
        ("nested/n", FileOperation::Create),
        ("tracked", FileOperation::Delete),
    ];
    assert_eq!(
        operations(&captured),
        expected.map(|(path, it)| (path.to_owned(), it))
    );
}

/// Git would refuse these when they are committed; a plan learns it at capture.
#[test]
fn files_that_git_refuses_are_named_at_capture() {
    let world = SandboxTestWorld::new();
    let modules = |url: &str| format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n");
    let good = modules("https://example.org/x.git");
    let repository = world.repository("user", &[("a", "1\n"), (".gitmodules", &good)]);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    append(&tree.join("a"), b"2\n");
    write(&tree.join(".g\u{200c}it/config"), b"1\n");
    write(&tree.join("dir/x\\.git"), b"1\n");
    write(
        &tree.join(".gitmodules"),
        modules("--upload-pack=x").as_bytes(),
    );
    let update = good.clone() + "\tupdate = !x\n";
    write(&tree.join("sub/.gitmodules"), update.as_bytes());
    write(&tree.join("fine/.gitmodules"), good.as_bytes());
    let captured = capture(&mut *sandbox);
    let expected = [
        (".gitmodules", OmissionReason::Modules),
        (".g\u{200c}it", OmissionReason::Name),
        ("dir/x\\.git", OmissionReason::Name),
        ("sub/.gitmodules", OmissionReason::Modules),
    ];
    let expected = expected.map(|(text, why)| OmittedPath {
        path: path(text),
        why,
    });
    assert_eq!(captured.omitted, expected);
    // Git commits everything else without an error.
    let words = CommitMetadata {
        name: "A".into(),
        email: "a@localhost".into(),
        seconds: 0,
        message: "m".into(),
    };
    sandbox
        .publish(&captured.tree, &words, &StopSignal::new())
        .unwrap();
    write(&tree.join(".gitmodules"), (good + "# more\n").as_bytes());
    let omitted = capture(&mut *sandbox).omitted;
    assert!(omitted.iter().all(|it| it.path != path(".gitmodules")));
}

/// If a repository already has such a file, the reason is reported in git's words.
#[test]
fn refused_gitmodules_are_reported_with_a_reason() {
    let world = SandboxTestWorld::new();
    let modules = "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=x\n";
    let repository = world.repository("user", &[("a", "1\n"), (".gitmodules", modules)]);
    let (created, mut sandbox) = world.create(&repository);
    append(&created.tree.join("a"), b"2\n");
    let captured = capture(&mut *sandbox);
    assert_eq!(captured.omitted, []);
    let words = CommitMetadata {
        name: "A".into(),
        email: "a@localhost".into(),
        seconds: 0,
        message: "m".into(),
    };
    let error = sandbox
        .publish(&captured.tree, &words, &StopSignal::new())
        .unwrap_err();
    assert!(error.to_string().contains("gitmodulesUrl"), "{error}");
    assert!(!error.to_string().contains("index-pack"), "{error}");
}

#[test]
fn folders_nested_too_deep_are_named() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let deep = created.tree.join(vec!["d"; 250].join("/"));
    write(&deep.join("x"), b"1\n");
    let captured = capture(&mut *sandbox);
    assert_eq!(captured.omitted.len(), 1);
    assert_eq!(captured.omitted[0].why, OmissionReason::TooDeep);
}

#[test]
fn ignored_files_are_skipped_and_tracked_files_are_not() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("a", "1\n"), ("dir/b", "1\n"), (".gitignore", "*.log\n")],
    );
    write(&repository.join(".git/info/exclude"), b"*.mine\n");
    write(&world.path("home/.config/git/ignore"), b"*.global\n");
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    for name in ["x.log", "x.mine", "x.global", "dir/new"] {
        write(&tree.join(name), b"1\n");
    }
    write(&tree.join(".gitignore"), b"*.log\n/dir/\na\n");
    append(&tree.join("a"), b"2\n");
    append(&tree.join("dir/b"), b"2\n");
    let captured = capture(&mut *sandbox);
    let expected = [
        (".gitignore", FileOperation::Modify),
        ("a", FileOperation::Modify),
        ("dir/b", FileOperation::Modify),
    ];
    assert_eq!(
        operations(&captured),
        expected.map(|(path, it)| (path.to_owned(), it))
    );
    // Removing rules reveals what they hid, even if only the rules file is named as touched.
    fs::remove_file(tree.join(".gitignore")).unwrap();
    let touched = TouchedPaths::Paths(paths(&[".gitignore"]));
    let captured = sandbox
        .capture(&captured.tree, &touched, &StopSignal::new())
        .unwrap();
    let expected = [
        (".gitignore", FileOperation::Delete),
        ("dir/new", FileOperation::Create),
        ("x.log", FileOperation::Create),
    ];
    assert_eq!(
        operations(&captured),
        expected.map(|(path, it)| (path.to_owned(), it))
    );
}

#[test]
fn only_touched_paths_and_empty_directories_are_captured() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("dir/only", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    let step = |sandbox: &mut dyn Sandbox, previous: &TreeId, touched: &[&str]| {
        let touched = TouchedPaths::Paths(paths(touched));
        let captured = sandbox
            .capture(previous, &touched, &StopSignal::new())
            .unwrap();
        let message = operations(&captured)
            .into_iter()
            .map(|(path, _)| path)
            .collect::<Vec<_>>();
        (captured.tree, message)
    };
    append(&tree.join("a"), b"2\n");
    append(&tree.join("b"), b"2\n");
    let (first, message) = step(&mut *sandbox, &created.base, &["b"]);
    assert_eq!(message, ["b"]);
    assert_eq!(first.empty_directories(), None);
    fs::remove_file(tree.join("dir/only")).unwrap();
    let (second, message) = step(&mut *sandbox, &first, &["dir/only"]);
    assert_eq!(message, ["dir/only"]);
    assert!(second.empty_directories().is_some());
    fs::create_dir_all(tree.join("dir/x/y")).unwrap();
    let (third, _) = step(&mut *sandbox, &second, &["dir/x"]);
    assert_ne!(third, second);
    // A folder replaced by a link hides its content, also if only a path inside is named.
    fs::remove_dir_all(tree.join("dir")).unwrap();
    link(&tree.join("dir"), "/etc");
    let (fourth, message) = step(&mut *sandbox, &third, &["dir/x/y/passwd"]);
    assert_eq!(message, ["dir"]);
    assert_eq!(fourth.empty_directories(), None);
    let all = sandbox
        .capture(&fourth, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(operations(&all), [("a".to_owned(), FileOperation::Modify)]);
}

#[test]
fn a_same_size_rewrite_in_one_tick_is_detected() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "0000\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let mut previous = created.base.clone();
    for round in 1..200 {
        write(&created.tree.join("a"), format!("{round:04}\n").as_bytes());
        let captured = sandbox
            .capture(&previous, &TouchedPaths::Unknown, &StopSignal::new())
            .unwrap();
        assert_eq!(captured.changes.len(), 1, "round {round}");
        previous = captured.tree;
    }
}

#[test]
fn a_damaged_entries_log_only_costs_time() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    append(&created.tree.join("a"), b"2\n");
    let first = capture(&mut *sandbox);
    let entries = created.tree.with_file_name("entries");
    write(&entries, b"damaged");
    append(&created.tree.join("b"), b"2\n");
    // A handle that has captured nothing yet relies on the stored log.
    let mut sandbox = world.sandboxes.open(sandbox.id()).unwrap();
    let second = sandbox
        .capture(
            &first.tree,
            &TouchedPaths::Paths(paths(&["a"])),
            &StopSignal::new(),
        )
        .unwrap();
    assert_eq!(
        operations(&second),
        [("b".to_owned(), FileOperation::Modify)]
    );
    // Compared with a tree other than the last, the changes are relative to that one.
    let all = capture(&mut *sandbox);
    assert_eq!(all.tree, second.tree);
    assert_eq!(all.changes.len(), 2);
}

#[test]
fn many_captures_stay_readable_with_one_pack_index() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "0\n"), ("dir/b", "0\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let mut trees = vec![created.base.clone()];
    for round in 1..=70 {
        let content = format!("{round}\n");
        write(&created.tree.join("a"), content.as_bytes());
        write(&created.tree.join("dir/b"), content.as_bytes());
        let touched = TouchedPaths::Paths(paths(&["a", "dir/b"]));
        let captured = sandbox
            .capture(trees.last().unwrap(), &touched, &StopSignal::new())
            .unwrap();
        assert_eq!(captured.changes.len(), 2, "round {round}");
        trees.push(captured.tree);
    }
    let index = created.tree.with_file_name("git");
    let index = index.join("objects/pack/multi-pack-index");
    assert!(index.is_file());
    for (round, tree) in trees.iter().enumerate().step_by(23) {
        sandbox.restore(tree, &StopSignal::new()).unwrap();
        let content = format!("{round}\n").into_bytes();
        assert_eq!(fs::read(created.tree.join("dir/b")).unwrap(), content);
    }
}
