//! Moving, copying and deleting.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cleveragents_engine::ports::tools::{StaleWhy, ToolFailure};
use serde_json::{Value, json};

use crate::world::{World, names, touched};

fn from_to(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

#[test]
fn a_file_moves_with_what_is_known_of_it() {
    let world = World::new();
    world.write("a", "one\n");
    world.read("a");
    let output = world.run("file-move", &from_to("a", "new/b")).unwrap();
    assert_eq!(
        output.data,
        json!({"from": "a", "to": "new/b", "kind": "file", "result": "created"})
    );
    assert_eq!(output.touched, touched(&["a", "new/b"]));
    assert_eq!(world.content("new/b"), "one\n");
    // Known under its new name, and nobody's business under the old one.
    world.data("file-write", &json!({"path": "new/b", "content": "two\n"}));
    world.data("file-write", &json!({"path": "a", "content": "again\n"}));
}

#[test]
fn a_folder_and_a_link_move_as_they_are() {
    let world = World::new();
    world.write("d/x/file", "one\n");
    world.read("d/x/file");
    world.link("l", "d/x/file");
    let moved = world.data("file-move", &from_to("d", "e/f"));
    assert_eq!(moved["kind"], "folder");
    assert_eq!(world.content("e/f/x/file"), "one\n");
    world.data(
        "file-write",
        &json!({"path": "e/f/x/file", "content": "two\n"}),
    );
    assert_eq!(world.data("file-move", &from_to("l", "m"))["kind"], "link");
    assert_eq!(
        fs::read_link(world.path("m")).unwrap().to_str(),
        Some("d/x/file")
    );
    for (from, to, said) in [
        ("e", "e/f/g", "a folder cannot be moved into itself"),
        ("e", "e", "e cannot be moved to itself"),
    ] {
        let failure = world.failure("file-move", &from_to(from, to)).to_string();
        assert!(failure.contains(said), "{failure}");
    }
}

#[test]
fn a_destination_is_replaced_only_if_it_is_known() {
    let world = World::new();
    for tool in ["file-move", "file-copy"] {
        world.write("from", "new\n");
        world.write("to", "old\n");
        world.stamps.forget(&"to".parse().unwrap());
        let failure = world.failure(tool, &from_to("from", "to"));
        assert!(
            matches!(&failure, ToolFailure::Stale { why: StaleWhy::Unseen, content, .. } if content == "old\n"),
            "{failure:?}"
        );
        assert_eq!(world.content("from"), "new\n");
        assert_eq!(
            world.data(tool, &from_to("from", "to"))["result"],
            "replaced"
        );
        assert_eq!(world.content("to"), "new\n");
    }
}

#[test]
fn a_copy_has_content_and_permissions_and_is_known() {
    let world = World::new();
    world.write("tool.sh", "#!/bin/sh\n");
    fs::set_permissions(world.path("tool.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    world.link("link", "tool.sh");
    let output = world
        .run("file-copy", &from_to("link", "bin/copy.sh"))
        .unwrap();
    assert_eq!(output.data["from"], "tool.sh");
    assert_eq!(output.touched, touched(&["bin/copy.sh"]));
    let found = fs::symlink_metadata(world.path("bin/copy.sh")).unwrap();
    assert!(found.is_file());
    assert_eq!(found.permissions().mode() & 0o777, 0o755);
    world.data(
        "file-write",
        &json!({"path": "bin/copy.sh", "content": "new"}),
    );
    assert_eq!(world.content("tool.sh"), "#!/bin/sh\n");
}

#[test]
fn what_cannot_be_moved_or_copied_is_refused_and_stays() {
    let world = World::new();
    world.write("a", "a");
    world.write("d/b", "b");
    world.link("l", "a");
    for (tool, from, to, said) in [
        ("file-move", "missing", "x", "missing does not exist"),
        ("file-copy", "missing", "x", "missing does not exist"),
        (
            "file-move",
            "a",
            "d",
            "d is a folder: name the full path in it",
        ),
        (
            "file-copy",
            "a",
            "d",
            "d is a folder: name the full path in it",
        ),
        ("file-copy", "d", "x", "d is a folder, a file is needed"),
        ("file-copy", "a", "a", "a cannot be copied to itself"),
        ("file-copy", "l", "a", "a cannot be copied to itself"),
        (
            "file-move",
            "a",
            "l",
            "l is a link, a file or nothing is needed",
        ),
        (
            "file-copy",
            "a",
            "l",
            "l is a link, a file or nothing is needed",
        ),
        ("file-move", "a", "a/b", "a is no folder"),
        ("file-move", ".", "x", "`.` is the root of the sandbox"),
        ("file-move", "a", ".git/x", "belongs to git"),
    ] {
        let failure = world.failure(tool, &from_to(from, to)).to_string();
        assert!(failure.contains(said), "{tool} {from} {to}: {failure}");
    }
    world.read("a");
    let failure = world.failure("file-move", &from_to("d", "a")).to_string();
    assert!(
        failure.contains("a is a file, a folder cannot replace it"),
        "{failure}"
    );
    assert_eq!(names(&world.path("")), ["a", "d", "l"]);
    world.assert_outside_untouched();
}

#[test]
fn a_file_or_a_link_is_deleted_itself() {
    let world = World::new();
    world.write("a", "a");
    world.link("inside", "a");
    world.link("leaves", world.outside().join("secret"));
    for (name, kind) in [("inside", "link"), ("leaves", "link"), ("a", "file")] {
        let output = world.run("file-delete", &json!({"path": name})).unwrap();
        assert_eq!(output.data, json!({"path": name, "kind": kind}));
        assert_eq!(output.touched, touched(&[name]));
    }
    assert_eq!(names(&world.path("")), [""; 0]);
    world.assert_outside_untouched();
    world.write("d/x", "x");
    for (path, said) in [
        ("d", "d is a folder: use builtin/dir-delete"),
        ("a", "a does not exist"),
        ("d/x/y", "`d/x/y` does not exist: d/x is no folder"),
    ] {
        assert_eq!(
            world
                .failure("file-delete", &json!({"path": path}))
                .to_string(),
            said
        );
    }
}
