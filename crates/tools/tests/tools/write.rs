//! Writing: whole files, stamps, modes and links.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cleveragents_ports::tools::{StaleReason, ToolFailure};
use serde_json::{Value, json};

use crate::fixture::{SECRET, ToolFixture, names, touched};

fn write_input(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

#[test]
fn a_new_file_is_created_with_its_folders() {
    let fixture = ToolFixture::new();
    let contents = ["", "a\r\nb\r\n", "no end", "ünïcode\n\n"];
    for (number, content) in contents.into_iter().enumerate() {
        let path = format!("new/{number}/file");
        let output = fixture
            .run("file-write", &write_input(&path, content))
            .unwrap();
        assert_eq!(output.data["result"], "created");
        assert_eq!(output.touched, touched(&[&path]));
        assert_eq!(fixture.content(&path), content);
    }
    fixture.assert_outside_untouched();
}

#[test]
fn an_unread_file_is_shown_instead_of_overwritten() {
    let fixture = ToolFixture::new();
    fixture.write("a", "old\n");
    let failure = fixture.failure("file-write", &write_input("a", "new\n"));
    let ToolFailure::Stale {
        path,
        why,
        content,
        hash,
    } = failure
    else {
        panic!("{failure:?}");
    };
    assert_eq!(
        (path.to_string().as_str(), why),
        ("a", StaleReason::NotRead)
    );
    assert_eq!(content, "old\n");
    assert_eq!(hash, blake3::hash(b"old\n").to_hex().to_string());
    assert_eq!(fixture.content("a"), "old\n");
    // The refusal showed the content, so the call may be repeated.
    assert_eq!(
        fixture.data("file-write", &write_input("a", "new\n"))["result"],
        "replaced"
    );
    // The actor knows what it wrote itself.
    assert_eq!(
        fixture.data("file-write", &write_input("a", "newer\n"))["result"],
        "replaced"
    );
    assert_eq!(
        fixture.data("file-write", &write_input("a", "newer\n"))["result"],
        "unchanged"
    );
}

#[test]
fn a_file_changed_since_its_read_is_not_overwritten() {
    let fixture = ToolFixture::new();
    fixture.write("a", "one\n");
    fixture.read("a");
    fixture.write("a", "two\n");
    for (tool, input) in [
        ("file-write", write_input("a", "three\n")),
        ("file-edit", json!({"path": "a", "old": "o", "new": "0"})),
        ("file-delete", json!({"path": "a"})),
        ("file-move", json!({"from": "a", "to": "b"})),
    ] {
        // Each case separately, because a refusal shows the content and stamps it.
        fixture.stamps.stamp(&"a".parse().unwrap(), "another");
        let failure = fixture.failure(tool, &input);
        assert!(
            matches!(&failure, ToolFailure::Stale { why: StaleReason::Changed, content, .. } if content == "two\n"),
            "{tool}: {failure:?}"
        );
        assert_eq!(fixture.content("a"), "two\n", "{tool}");
    }
}

#[test]
fn a_refusal_shows_only_the_beginning() {
    let fixture = ToolFixture::new();
    fixture.write("long", "é".repeat(100_000));
    fixture.write("binary", b"\0\0\0");
    let shown = |path: &str| match fixture.failure("file-write", &write_input(path, "x")) {
        ToolFailure::Stale { content, .. } => content,
        other => panic!("{other:?}"),
    };
    let content = shown("long");
    assert!(content.len() < 70_000, "{}", content.len());
    assert!(content.ends_with("bytes left out …]") && !content.contains('\u{fffd}'));
    assert_eq!(shown("binary"), "[binary content, 3 bytes]");
}

#[test]
fn permissions_are_kept() {
    let fixture = ToolFixture::new();
    for mode in [0o755, 0o600, 0o444] {
        let name = format!("{mode:o}");
        fixture.write(&name, "old");
        fs::set_permissions(fixture.path(&name), fs::Permissions::from_mode(mode)).unwrap();
        fixture.read(&name);
        fixture.data("file-write", &write_input(&name, "new"));
        fixture.data(
            "file-edit",
            &json!({"path": name, "old": "new", "new": "newer"}),
        );
        let found = fs::metadata(fixture.path(&name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o7777, mode);
    }
}

#[test]
fn writing_through_an_inner_link_keeps_the_link() {
    let fixture = ToolFixture::new();
    fixture.write("real/file", "old\n");
    fixture.link("link", "real/file");
    fixture.link("folder", "real");
    fixture.read("real/file");
    let output = fixture
        .run("file-write", &write_input("link", "new\n"))
        .unwrap();
    assert_eq!(output.data["path"], "real/file");
    assert_eq!(output.touched, touched(&["real/file"]));
    assert!(fixture.path("link").is_symlink());
    let output = fixture
        .run("file-write", &write_input("folder/more", "more\n"))
        .unwrap();
    assert_eq!(output.touched, touched(&["real/more"]));
    assert_eq!(fixture.content("real/file"), "new\n");
    assert_eq!(names(&fixture.path("real")), ["file", "more"]);
}

#[test]
fn a_hard_link_to_an_outside_file_is_replaced() {
    let fixture = ToolFixture::new();
    fs::hard_link(fixture.outside().join("secret"), fixture.path("hard")).unwrap();
    fixture.read("hard");
    fixture.data("file-write", &write_input("hard", "mine\n"));
    assert_eq!(fixture.content("hard"), "mine\n");
    fs::hard_link(fixture.outside().join("secret"), fixture.path("other")).unwrap();
    let edit = json!({"path": "other", "old": "secret", "new": "public"});
    fixture.data("file-edit", &edit);
    assert_eq!(fixture.content("other"), SECRET.replace("secret", "public"));
    fixture.assert_outside_untouched();
}

#[test]
fn scratch_may_be_on_another_file_system() {
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut fixture = ToolFixture::new();
    fixture.sandbox.scratch = elsewhere.path().to_owned();
    fixture.data("file-write", &write_input("d/a", "one\n"));
    fixture.data(
        "file-edit",
        &json!({"path": "d/a", "old": "one", "new": "two"}),
    );
    fixture.data("file-copy", &json!({"from": "d/a", "to": "d/b"}));
    assert_eq!(fixture.content("d/b"), "two\n");
    assert_eq!(names(&fixture.path("d")), ["a", "b"]);
    assert_eq!(names(elsewhere.path()), [""; 0]);
}

#[test]
fn leftovers_of_a_killed_call_are_harmless() {
    let fixture = ToolFixture::new();
    for number in 0..3 {
        let left = fixture.sandbox.scratch.join(format!("writing-{number}"));
        crate::fixture::write_file(&left, b"half");
    }
    fixture.data("file-write", &write_input("a", "whole\n"));
    assert_eq!(fixture.content("a"), "whole\n");
    assert_eq!(
        names(&fixture.sandbox.scratch),
        ["writing-0", "writing-1", "writing-2"]
    );
}
