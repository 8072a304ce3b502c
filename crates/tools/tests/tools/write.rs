//! Writing: whole files, stamps, modes and links.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cleveragents_engine::ports::tools::{StaleWhy, ToolFailure};
use serde_json::{Value, json};

use crate::world::{SECRET, World, names, touched};

fn write(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

#[test]
fn a_new_file_is_made_with_its_folders_and_exactly_its_content() {
    let world = World::new();
    let contents = ["", "a\r\nb\r\n", "no end", "ünïcode\n\n"];
    for (number, content) in contents.into_iter().enumerate() {
        let path = format!("new/{number}/file");
        let output = world.run("file-write", &write(&path, content)).unwrap();
        assert_eq!(output.data["result"], "created");
        assert_eq!(output.touched, touched(&[&path]));
        assert_eq!(world.content(&path), content);
    }
    world.assert_outside_untouched();
}

#[test]
fn what_the_actor_has_not_seen_is_not_overwritten_but_shown() {
    let world = World::new();
    world.write("a", "old\n");
    let failure = world.failure("file-write", &write("a", "new\n"));
    let ToolFailure::Stale {
        path,
        why,
        content,
        hash,
    } = failure
    else {
        panic!("{failure:?}");
    };
    assert_eq!((path.to_string().as_str(), why), ("a", StaleWhy::Unseen));
    assert_eq!(content, "old\n");
    assert_eq!(hash, blake3::hash(b"old\n").to_hex().to_string());
    assert_eq!(world.content("a"), "old\n");
    // It was shown, so the call may be repeated.
    assert_eq!(
        world.data("file-write", &write("a", "new\n"))["result"],
        "replaced"
    );
    // What one wrote oneself one knows.
    assert_eq!(
        world.data("file-write", &write("a", "newer\n"))["result"],
        "replaced"
    );
    assert_eq!(
        world.data("file-write", &write("a", "newer\n"))["result"],
        "unchanged"
    );
}

#[test]
fn what_has_changed_since_it_was_read_is_not_overwritten() {
    let world = World::new();
    world.write("a", "one\n");
    world.read("a");
    world.write("a", "two\n");
    for (tool, input) in [
        ("file-write", write("a", "three\n")),
        ("file-edit", json!({"path": "a", "old": "o", "new": "0"})),
        ("file-delete", json!({"path": "a"})),
        ("file-move", json!({"from": "a", "to": "b"})),
    ] {
        // Each on its own: a refusal shows the content and stamps it.
        world.stamps.stamp(&"a".parse().unwrap(), "another");
        let failure = world.failure(tool, &input);
        assert!(
            matches!(&failure, ToolFailure::Stale { why: StaleWhy::Changed, content, .. } if content == "two\n"),
            "{tool}: {failure:?}"
        );
        assert_eq!(world.content("a"), "two\n", "{tool}");
    }
}

#[test]
fn a_refusal_shows_no_more_than_the_beginning() {
    let world = World::new();
    world.write("long", "é".repeat(100_000));
    world.write("binary", b"\0\0\0");
    let shown = |path: &str| match world.failure("file-write", &write(path, "x")) {
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
    let world = World::new();
    for mode in [0o755, 0o600, 0o444] {
        let name = format!("{mode:o}");
        world.write(&name, "old");
        fs::set_permissions(world.path(&name), fs::Permissions::from_mode(mode)).unwrap();
        world.read(&name);
        world.data("file-write", &write(&name, "new"));
        world.data(
            "file-edit",
            &json!({"path": name, "old": "new", "new": "newer"}),
        );
        let found = fs::metadata(world.path(&name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o7777, mode);
    }
}

#[test]
fn a_link_inside_leads_to_its_file_and_stays() {
    let world = World::new();
    world.write("real/file", "old\n");
    world.link("link", "real/file");
    world.link("folder", "real");
    world.read("real/file");
    let output = world.run("file-write", &write("link", "new\n")).unwrap();
    assert_eq!(output.data["path"], "real/file");
    assert_eq!(output.touched, touched(&["real/file"]));
    assert!(world.path("link").is_symlink());
    let output = world
        .run("file-write", &write("folder/more", "more\n"))
        .unwrap();
    assert_eq!(output.touched, touched(&["real/more"]));
    assert_eq!(world.content("real/file"), "new\n");
    assert_eq!(names(&world.path("real")), ["file", "more"]);
}

#[test]
fn a_hard_link_to_a_file_outside_is_cut_and_not_written_through() {
    let world = World::new();
    fs::hard_link(world.outside().join("secret"), world.path("hard")).unwrap();
    world.read("hard");
    world.data("file-write", &write("hard", "mine\n"));
    assert_eq!(world.content("hard"), "mine\n");
    fs::hard_link(world.outside().join("secret"), world.path("other")).unwrap();
    let edit = json!({"path": "other", "old": "secret", "new": "public"});
    world.data("file-edit", &edit);
    assert_eq!(world.content("other"), SECRET.replace("secret", "public"));
    world.assert_outside_untouched();
}

#[test]
fn scratch_on_another_file_system_is_no_hindrance() {
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut world = World::new();
    world.sandbox.scratch = elsewhere.path().to_owned();
    world.data("file-write", &write("d/a", "one\n"));
    world.data(
        "file-edit",
        &json!({"path": "d/a", "old": "one", "new": "two"}),
    );
    world.data("file-copy", &json!({"from": "d/a", "to": "d/b"}));
    assert_eq!(world.content("d/b"), "two\n");
    assert_eq!(names(&world.path("d")), ["a", "b"]);
    assert_eq!(names(elsewhere.path()), [""; 0]);
}

#[test]
fn what_a_killed_call_left_in_scratch_is_in_nobodys_way() {
    let world = World::new();
    for number in 0..3 {
        let left = world.sandbox.scratch.join(format!("writing-{number}"));
        crate::world::write_file(&left, b"half");
    }
    world.data("file-write", &write("a", "whole\n"));
    assert_eq!(world.content("a"), "whole\n");
    assert_eq!(
        names(&world.sandbox.scratch),
        ["writing-0", "writing-1", "writing-2"]
    );
}
