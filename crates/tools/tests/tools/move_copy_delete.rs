//! Moving, copying and deleting.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cleveragents_ports::tools::{StaleReason, ToolFailure};
use serde_json::{Value, json};

use crate::fixture::{ToolFixture, names, touched};

fn from_to(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

#[test]
fn a_moved_file_keeps_its_stamp() {
    let fixture = ToolFixture::new();
    fixture.write("a", "one\n");
    fixture.read("a");
    let output = fixture.run("file-move", &from_to("a", "new/b")).unwrap();
    assert_eq!(
        output.data,
        json!({"from": "a", "to": "new/b", "kind": "file", "result": "created"})
    );
    assert_eq!(output.touched, touched(&["a", "new/b"]));
    assert_eq!(fixture.content("new/b"), "one\n");
    // The stamp moved to the new name, and the old name is free.
    fixture.data("file-write", &json!({"path": "new/b", "content": "two\n"}));
    fixture.data("file-write", &json!({"path": "a", "content": "again\n"}));
}

#[test]
fn folders_and_links_are_moved_unchanged() {
    let fixture = ToolFixture::new();
    fixture.write("d/x/file", "one\n");
    fixture.read("d/x/file");
    fixture.link("l", "d/x/file");
    let moved = fixture.data("file-move", &from_to("d", "e/f"));
    assert_eq!(moved["kind"], "folder");
    assert_eq!(fixture.content("e/f/x/file"), "one\n");
    fixture.data(
        "file-write",
        &json!({"path": "e/f/x/file", "content": "two\n"}),
    );
    assert_eq!(
        fixture.data("file-move", &from_to("l", "m"))["kind"],
        "link"
    );
    assert_eq!(
        fs::read_link(fixture.path("m")).unwrap().to_str(),
        Some("d/x/file")
    );
    for (from, to, said) in [
        ("e", "e/f/g", "a folder cannot be moved into itself"),
        ("e", "e", "e cannot be moved to itself"),
    ] {
        let failure = fixture.failure("file-move", &from_to(from, to)).to_string();
        assert!(failure.contains(said), "{failure}");
    }
}

#[test]
fn a_destination_is_replaced_only_after_a_read() {
    let fixture = ToolFixture::new();
    for tool in ["file-move", "file-copy"] {
        fixture.write("from", "new\n");
        fixture.write("to", "old\n");
        fixture.stamps.forget(&"to".parse().unwrap());
        let failure = fixture.failure(tool, &from_to("from", "to"));
        assert!(
            matches!(&failure, ToolFailure::Stale { why: StaleReason::NotRead, content, .. } if content == "old\n"),
            "{failure:?}"
        );
        assert_eq!(fixture.content("from"), "new\n");
        assert_eq!(
            fixture.data(tool, &from_to("from", "to"))["result"],
            "replaced"
        );
        assert_eq!(fixture.content("to"), "new\n");
    }
}

#[test]
fn a_copy_keeps_content_and_permissions_and_is_stamped() {
    let fixture = ToolFixture::new();
    fixture.write("tool.sh", "#!/bin/sh\n");
    fs::set_permissions(fixture.path("tool.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fixture.link("link", "tool.sh");
    let output = fixture
        .run("file-copy", &from_to("link", "bin/copy.sh"))
        .unwrap();
    assert_eq!(output.data["from"], "tool.sh");
    assert_eq!(output.touched, touched(&["bin/copy.sh"]));
    let found = fs::symlink_metadata(fixture.path("bin/copy.sh")).unwrap();
    assert!(found.is_file());
    assert_eq!(found.permissions().mode() & 0o777, 0o755);
    fixture.data(
        "file-write",
        &json!({"path": "bin/copy.sh", "content": "new"}),
    );
    assert_eq!(fixture.content("tool.sh"), "#!/bin/sh\n");
}

#[test]
fn a_refused_move_or_copy_changes_nothing() {
    let fixture = ToolFixture::new();
    fixture.write("a", "a");
    fixture.write("d/b", "b");
    fixture.link("l", "a");
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
        ("file-move", "a", "a/b", "a is not a folder"),
        ("file-move", ".", "x", "`.` is the root of the sandbox"),
        ("file-move", "a", ".git/x", "belongs to git"),
    ] {
        let failure = fixture.failure(tool, &from_to(from, to)).to_string();
        assert!(failure.contains(said), "{tool} {from} {to}: {failure}");
    }
    fixture.read("a");
    let failure = fixture.failure("file-move", &from_to("d", "a")).to_string();
    assert!(
        failure.contains("a is a file, a folder cannot replace it"),
        "{failure}"
    );
    assert_eq!(names(&fixture.path("")), ["a", "d", "l"]);
    fixture.assert_outside_untouched();
}

#[test]
fn a_file_or_a_link_is_deleted() {
    let fixture = ToolFixture::new();
    fixture.write("a", "a");
    fixture.link("inside", "a");
    fixture.link("leaves", fixture.outside().join("secret"));
    for (name, kind) in [("inside", "link"), ("leaves", "link"), ("a", "file")] {
        let output = fixture.run("file-delete", &json!({"path": name})).unwrap();
        assert_eq!(output.data, json!({"path": name, "kind": kind}));
        assert_eq!(output.touched, touched(&[name]));
    }
    assert_eq!(names(&fixture.path("")), [""; 0]);
    fixture.assert_outside_untouched();
    fixture.write("d/x", "x");
    for (path, said) in [
        ("d", "d is a folder: use builtin/dir-delete"),
        ("a", "a does not exist"),
        ("d/x/y", "`d/x/y` does not exist: d/x is not a folder"),
    ] {
        assert_eq!(
            fixture
                .failure("file-delete", &json!({"path": path}))
                .to_string(),
            said
        );
    }
}
