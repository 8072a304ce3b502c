//! Diffs: patches that git itself accepts.

use std::fs;

use cleveragents_ports::sandbox::{DiffChange, DiffLines, DiffStat};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{
    SandboxTestWorld, append, capture, link, listing, os, path, paths, set_mode, write,
};

#[test]
fn a_full_patch_turns_the_base_into_the_captured_tree() {
    let world = SandboxTestWorld::new();
    let files = [
        ("a", "1\n"),
        ("gone", "gone\n"),
        ("mode", "m\n"),
        ("old", "1\n2\n3\n4\n5\n"),
        ("to-link", "l\n"),
        ("no-end", "x"),
    ];
    let repository = world.repository("user", &files);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    append(&tree.join("a"), b"2\n");
    fs::remove_file(tree.join("gone")).unwrap();
    set_mode(&tree.join("mode"), 0o755);
    fs::rename(tree.join("old"), tree.join("renamed")).unwrap();
    append(&tree.join("renamed"), b"6\n");
    fs::remove_file(tree.join("to-link")).unwrap();
    link(&tree.join("to-link"), "a");
    append(&tree.join("no-end"), b"y");
    write(&tree.join("binary"), b"\0\x01\xff\n");
    write(&tree.join("empty"), b"");
    write(&tree.join(os(b"odd \xff\t\"name")), b"1\n");
    // Attributes that an agent writes do not change the patch.
    write(&tree.join(".gitattributes"), b"* binary diff=evil\n");
    let captured = capture(&mut *sandbox);
    let diff = sandbox
        .diff(&created.base, &captured.tree, &[], &StopSignal::new())
        .unwrap();
    let patch = world.path("patch");
    write(&patch, &diff.patch);
    world.git(&repository, &["apply", "--index", patch.to_str().unwrap()]);
    assert_eq!(
        world.git(&repository, &["write-tree"]),
        captured.tree.files()
    );
    assert_eq!(listing(&repository), listing(tree));
    let renamed = diff
        .files
        .iter()
        .find(|it| it.path == path("renamed"))
        .unwrap();
    assert_eq!(renamed.renamed_from, Some(path("old")));
    assert_eq!(
        renamed.lines,
        DiffLines::Text {
            inserted: 1,
            deleted: 0
        }
    );
    assert_changes(&diff.files);
    let binary = diff
        .files
        .iter()
        .find(|it| it.path == path("binary"))
        .unwrap();
    assert_eq!(binary.lines, DiffLines::Binary);
    assert!(!String::from_utf8_lossy(&diff.patch).contains("Binary files"));
}

fn assert_changes(files: &[DiffStat]) {
    for (name, change) in [
        ("a", DiffChange::Modified),
        ("gone", DiffChange::Deleted),
        ("mode", DiffChange::Modified),
        ("renamed", DiffChange::Renamed),
        ("to-link", DiffChange::Retyped),
        ("empty", DiffChange::Added),
    ] {
        let found = files.iter().find(|it| it.path == path(name)).unwrap();
        assert_eq!(found.change, change, "{name}");
    }
}

#[test]
fn a_patch_of_some_paths_has_only_those() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("*", "1\n"), ("dir/b", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    for name in ["a", "*", "dir/b"] {
        append(&created.tree.join(name), b"2\n");
    }
    let captured = capture(&mut *sandbox);
    for (wanted, expected) in [
        (&["*"][..], &["*"][..]),
        (&["dir"], &["dir/b"]),
        (&["a", "absent"], &["a"]),
    ] {
        let diff = sandbox
            .diff(
                &created.base,
                &captured.tree,
                &paths(wanted),
                &StopSignal::new(),
            )
            .unwrap();
        let message: Vec<String> = diff.files.iter().map(|it| it.path.to_string()).collect();
        assert_eq!(message, expected);
    }
    let nothing = sandbox
        .diff(&captured.tree, &captured.tree, &[], &StopSignal::new())
        .unwrap();
    assert_eq!((nothing.patch, nothing.files), (Vec::new(), Vec::new()));
}

/// Git detects it as a rename, but would refuse to apply it as one.
#[test]
fn a_link_moved_below_its_own_path_makes_a_patch() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    link(&repository.join("dir"), "/etc");
    world.git(&repository, &["add", "dir"]);
    world.git(&repository, &["commit", "-q", "-m", "a link"]);
    let (created, mut sandbox) = world.create(&repository);
    fs::remove_file(created.tree.join("dir")).unwrap();
    fs::create_dir(created.tree.join("dir")).unwrap();
    link(&created.tree.join("dir/sub"), "/etc");
    let captured = capture(&mut *sandbox);
    for (from, to) in [
        (&created.base, &captured.tree),
        (&captured.tree, &created.base),
    ] {
        let diff = sandbox.diff(from, to, &[], &StopSignal::new()).unwrap();
        let patch = world.path("patch");
        write(&patch, &diff.patch);
        world.git(&repository, &["apply", "--index", patch.to_str().unwrap()]);
        assert_eq!(world.git(&repository, &["write-tree"]), to.files());
    }
}
