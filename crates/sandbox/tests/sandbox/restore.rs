//! Restore: exactly what was captured, also after a kill at any point.

use std::fs;

use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, append, capture, link, listing, set_mode, write};

#[test]
fn restore_removes_later_files_and_keeps_ignored_ones() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("a", "1\n"), ("dir/b", "1\n"), (".gitignore", "target/\n")],
    );
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    write(&tree.join("target/big"), b"built\n");
    write(&tree.join("dir/target/big"), b"built\n");
    set_mode(&tree.join("a"), 0o755);
    link(&tree.join("link"), "a");
    fs::create_dir_all(tree.join("empty/inner")).unwrap();
    let checkpoint = capture(&mut *sandbox).tree;
    let expected = listing(tree);
    fs::remove_file(tree.join("a")).unwrap();
    fs::remove_dir_all(tree.join("empty")).unwrap();
    write(&tree.join("later/x"), b"1\n");
    // Ignored now but captured before: it must be removed all the same.
    sandbox
        .capture(&checkpoint, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    write(&tree.join(".gitignore"), b"target/\nlater/\n");
    sandbox.restore(&checkpoint, &StopSignal::new()).unwrap();
    assert_eq!(listing(tree), expected);
    let again = sandbox
        .capture(&checkpoint, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(again.tree, checkpoint);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(fs::read(tree.join("dir/target/big")).unwrap(), b"built\n");
    assert!(!tree.join("link").exists());
}

#[test]
fn files_ignored_only_by_later_rules_are_removed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("deep/.gitignore", "*.o\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    write(&tree.join(".gitignore"), b"target/\n");
    write(&tree.join("target/big"), b"built\n");
    write(&tree.join("deep/x.o"), b"built\n");
    write(&tree.join("deep/new/y.o"), b"built\n");
    capture(&mut *sandbox);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    let mut expected = listing(&repository);
    expected.insert(b"deep/x.o".to_vec(), ('f', b"built\n".to_vec()));
    assert_eq!(listing(tree), expected);
    let base = created.base.clone();
    let again = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(again.tree, base);
}

#[test]
fn unreadable_folders_are_restored() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    write(&created.tree.join("closed/x"), b"1\n");
    set_mode(&created.tree.join("closed"), 0o000);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(listing(&created.tree), listing(&repository));
}

/// What can be on disk if a restore is killed: before the swap, between its two renames, after it,
/// and with half of the old tree removed.
#[test]
fn a_restore_killed_at_any_point_is_finished_by_the_next() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("a", "1\n"), ("b", "1\n"), (".gitignore", "*.o\n")],
    );
    for point in 0..5 {
        let (created, mut sandbox) = world.create(&repository);
        let tree = &created.tree;
        let (next, old) = (
            tree.with_file_name("tree.next"),
            tree.with_file_name("tree.old"),
        );
        append(&tree.join("a"), b"2\n");
        let later = capture(&mut *sandbox).tree;
        write(&tree.join("x.o"), b"ignored\n");
        match point {
            0 => write(&next.join("half"), b"made"),
            1 => {
                write(&next.join("whole"), b"made");
                fs::rename(tree, &old).unwrap();
            }
            2 => {
                fs::rename(tree, &old).unwrap();
                write(&tree.join("a"), b"1\n");
                write(&tree.join(".gitignore"), b"*.o\n");
            }
            3 => {
                fs::rename(tree, &old).unwrap();
                fs::remove_file(old.join("a")).unwrap();
                write(&tree.join("a"), b"1\n");
                write(&tree.join(".gitignore"), b"*.o\n");
            }
            _ => write(&tree.with_file_name("git").join("index-next.lock"), b""),
        }
        sandbox.restore(&created.base, &StopSignal::new()).unwrap();
        let mut expected = listing(&repository);
        expected.insert(b"x.o".to_vec(), ('f', b"ignored\n".to_vec()));
        assert_eq!(listing(tree), expected, "point {point}");
        assert!(!next.exists() && !old.exists(), "point {point}");
        sandbox.restore(&later, &StopSignal::new()).unwrap();
        assert_eq!(
            fs::read(tree.join("a")).unwrap(),
            b"1\n2\n",
            "point {point}"
        );
    }
}
