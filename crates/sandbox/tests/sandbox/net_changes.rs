//! Net changes of paths, and trees without some of them.

use std::fs;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_engine::execution::patch::file_patches;
use cleveragents_ports::sandbox::{DiffLines, DiffPart, NetChange, SandboxError};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{
    SandboxTestWorld, append, capture, link, listing, os, path, paths, set_mode, write,
};

fn text(inserted: u64, deleted: u64) -> DiffLines {
    DiffLines::Text { inserted, deleted }
}

#[test]
fn every_path_is_listed_once_with_both_states() {
    let world = SandboxTestWorld::new();
    let user = [
        ("a", "1\n"),
        ("gone", "gone\n"),
        ("mode", "m\n"),
        ("old", "1\n2\n"),
        ("crlf", "1\n2\n"),
        (".gitattributes", "crlf text eol=crlf\n"),
    ];
    let repository = world.repository("user", &user);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    append(&tree.join("a"), b"2\n");
    fs::remove_file(tree.join("gone")).unwrap();
    set_mode(&tree.join("mode"), 0o755);
    fs::create_dir(tree.join("new")).unwrap();
    fs::rename(tree.join("old"), tree.join("new/old")).unwrap();
    append(&tree.join("crlf"), b"3\r\n");
    link(&tree.join("link"), "a");
    write(&tree.join("binary"), b"\0\xff");
    let now = capture(&mut *sandbox).tree;
    let found = sandbox
        .net_changes(&created.base, &now, &StopSignal::new())
        .unwrap();
    let sizes = |change: &NetChange| {
        let size = |state: &Option<cleveragents_domain::FileState>| Some(state.as_ref()?.size);
        (size(&change.before), size(&change.after))
    };
    let message: Vec<_> = found
        .iter()
        .map(|it| (it.path.to_string(), sizes(it), it.lines))
        .collect();
    let expected = [
        ("a", (Some(2), Some(4)), text(1, 0)),
        ("binary", (None, Some(2)), DiffLines::Binary),
        // The size as tools read the file, not as git stores it.
        ("crlf", (Some(6), Some(9)), text(1, 0)),
        ("gone", (Some(5), None), text(0, 1)),
        ("link", (None, Some(1)), text(1, 0)),
        ("mode", (Some(2), Some(2)), text(0, 0)),
        ("new/old", (None, Some(4)), text(2, 0)),
        ("old", (Some(4), None), text(0, 2)),
    ];
    let expected = expected.map(|(path, sizes, lines)| (path.to_owned(), sizes, lines));
    assert_eq!(message, expected);
    let mode = found.iter().find(|it| it.path == path("mode")).unwrap();
    assert_eq!(mode.before.as_ref().unwrap().mode, 0o100_644);
    assert_eq!(mode.after.as_ref().unwrap().mode, 0o100_755);
    assert_eq!(
        sandbox.net_changes(&now, &now, &StopSignal::new()).unwrap(),
        []
    );
}

#[test]
fn files_of_a_captured_tree_are_listed_from_the_tree() {
    let world = SandboxTestWorld::new();
    let user = [(".gitignore", "ignored\n"), ("a", "1\n"), ("b/c", "2\n")];
    let repository = world.repository("user", &user);
    let (created, mut sandbox) = world.create(&repository);
    fs::remove_file(created.tree.join("a")).unwrap();
    write(&created.tree.join("new"), b"n\n");
    write(&created.tree.join("ignored"), b"i\n");
    let now = capture(&mut *sandbox).tree;
    let asked = paths(&["a", "b", "b/c", "new", "ignored", "nowhere"]);
    for (tree, there) in [(&created.base, ["a", "b/c"]), (&now, ["b/c", "new"])] {
        assert_eq!(sandbox.files_in_tree(tree, &asked).unwrap(), paths(&there));
    }
    assert_eq!(sandbox.files_in_tree(&now, &[]).unwrap(), []);
}

#[test]
fn removing_all_paths_gives_the_base_again() {
    let world = SandboxTestWorld::new();
    let user = [("a", "1\n"), ("gone", "g\n"), ("to-link", "l\n")];
    let repository = world.repository("user", &user);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    let before = listing(tree);
    append(&tree.join("a"), b"2\n");
    fs::remove_file(tree.join("gone")).unwrap();
    fs::remove_file(tree.join("to-link")).unwrap();
    link(&tree.join("to-link"), "a");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    write(&tree.join("deep/er/new"), b"n\n");
    write(&tree.join(os(b"odd \xff\t\"")), b"o\n");
    let now = capture(&mut *sandbox).tree;
    let changes = sandbox
        .net_changes(&created.base, &now, &StopSignal::new())
        .unwrap();
    let mut left = now.clone();
    for change in &changes {
        let part = DiffPart::Paths(vec![change.path.clone()]);
        left = sandbox.tree_without(&created.base, &left, &part).unwrap();
        let still = sandbox
            .net_changes(&created.base, &left, &StopSignal::new())
            .unwrap();
        assert!(still.iter().all(|it| it.path != change.path));
    }
    assert_eq!(left, created.base);
    let all = DiffPart::Paths(changes.into_iter().map(|it| it.path).collect());
    let left = sandbox.tree_without(&created.base, &now, &all).unwrap();
    assert_eq!(left, created.base);
    sandbox.restore(&left, &StopSignal::new()).unwrap();
    assert_eq!(listing(tree), before);
}

#[test]
fn an_empty_folder_that_was_filled_is_empty_again() {
    let world = SandboxTestWorld::new();
    let folder = world.path("folder");
    fs::create_dir_all(folder.join("empty")).unwrap();
    write(&folder.join("a"), b"1\n");
    let (created, mut sandbox) =
        world.create_from(&folder, ResourceType::FsDirectory, BaseSource::Worktree);
    write(&created.tree.join("empty/file"), b"f\n");
    let now = capture(&mut *sandbox).tree;
    assert_ne!(now.empty_directories(), created.base.empty_directories());
    let part = DiffPart::Paths(paths(&["empty/file"]));
    let left = sandbox.tree_without(&created.base, &now, &part).unwrap();
    assert_eq!(left, created.base);
}

#[test]
fn one_hunk_is_removed_from_files_of_all_kinds() {
    let world = SandboxTestWorld::new();
    let lines: String = (1..=30).map(|number| format!("{number}\n")).collect();
    let bare = lines.trim_end().to_owned();
    let user = [("plain", lines.as_str()), ("old", &lines), ("end", &bare)];
    let repository = world.repository("user", &user);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    let odd = os(b"n\xffew \"\t");
    fs::rename(tree.join("old"), tree.join(odd)).unwrap();
    let changed = |text: &str| {
        text.replacen("3\n", "three\n", 1)
            .replacen("15\n", "fifteen\r\n", 1)
            .replacen("29\n", "", 1)
    };
    for name in [os(b"plain"), odd] {
        write(&tree.join(name), changed(&lines).as_bytes());
    }
    write(&tree.join("end"), (changed(&bare) + "\n").as_bytes());
    set_mode(&tree.join("plain"), 0o755);
    let now = capture(&mut *sandbox).tree;
    let diff = sandbox
        .diff(&created.base, &now, &[], &StopSignal::new())
        .unwrap();
    let all = file_patches(&diff).unwrap();
    assert_eq!(all.len(), 3);
    for file in &all {
        assert_eq!(file.hunks.len(), 3, "{}", file.file.path);
        for (place, hunk) in file.hunks.iter().enumerate() {
            let part = DiffPart::Patch(file.single_hunk_patch(hunk).unwrap());
            let left = sandbox.tree_without(&created.base, &now, &part).unwrap();
            let again = sandbox
                .diff(&created.base, &left, &[], &StopSignal::new())
                .unwrap();
            let again = file_patches(&again).unwrap();
            let same = again
                .iter()
                .find(|it| it.file.path == file.file.path)
                .unwrap();
            let mut bodies: Vec<_> = file.hunks.iter().map(|it| it.insertions()).collect();
            bodies.remove(place);
            let still: Vec<_> = same.hunks.iter().map(|it| it.insertions()).collect();
            assert_eq!(still, bodies, "{} {place}", file.file.path);
            assert_eq!(same.file.change, file.file.change);
        }
    }
    let stray = DiffPart::Patch(b"--- a/plain\n+++ b/plain\n@@ -1 +1 @@\n-x\n+y\n".to_vec());
    let refused = sandbox.tree_without(&created.base, &now, &stray);
    assert!(
        matches!(refused, Err(SandboxError::Git { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_file_does_not_come_back_where_a_folder_is() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b/c", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    fs::remove_file(tree.join("a")).unwrap();
    fs::create_dir(tree.join("a")).unwrap();
    write(&tree.join("a/x"), b"x\n");
    fs::remove_dir_all(tree.join("b")).unwrap();
    write(&tree.join("b"), b"b\n");
    let now = capture(&mut *sandbox).tree;
    for one in ["a", "b/c"] {
        let part = DiffPart::Paths(paths(&[one]));
        let refused = sandbox
            .tree_without(&created.base, &now, &part)
            .unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("cannot be restored while"), "{said}");
    }
    let both = DiffPart::Paths(paths(&["a", "a/x", "b", "b/c"]));
    let left = sandbox.tree_without(&created.base, &now, &both).unwrap();
    assert_eq!(left, created.base);
}
