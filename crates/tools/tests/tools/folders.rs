//! Making and deleting folders.

use std::fs;

use cleveragents_engine::ports::tools::{StaleWhy, ToolFailure};
use serde_json::json;

use crate::world::{World, names, touched};

#[test]
fn folders_are_made_once() {
    let world = World::new();
    let input = json!({"path": "a/b/c"});
    let output = world.run("dir-create", &input).unwrap();
    assert_eq!(output.data, json!({"path": "a/b/c", "result": "created"}));
    assert_eq!(output.touched, touched(&["a/b/c"]));
    let output = world.run("dir-create", &input).unwrap();
    assert_eq!(output.data["result"], "unchanged");
    assert_eq!(output.touched, touched(&[]));
    world.write("file", "x");
    world.link("leaves", world.outside());
    for (path, said) in [
        ("file", "file is a file, a folder or nothing is needed"),
        ("file/x", "`file/x` does not exist: file is no folder"),
        (
            "leaves/x",
            "`leaves/x` leaves the sandbox: the link leaves leads out of it",
        ),
    ] {
        assert_eq!(
            world
                .failure("dir-create", &json!({"path": path}))
                .to_string(),
            said
        );
    }
    world.assert_outside_untouched();
}

#[test]
fn a_folder_is_deleted_with_all_that_is_in_it_and_nothing_else() {
    let world = World::new();
    world.write("d/a", "a");
    world.write("d/e/b", "b");
    fs::create_dir(world.path("d/empty")).unwrap();
    world.link("d/leaves", world.outside());
    world.link("d/up", "..");
    world.write("stays", "x");
    let output = world.run("dir-delete", &json!({"path": "d"})).unwrap();
    assert_eq!(output.data, json!({"path": "d", "files": 4, "folders": 2}));
    assert_eq!(output.touched, touched(&["d"]));
    assert_eq!(names(&world.path("")), ["stays"]);
    world.assert_outside_untouched();
}

#[test]
fn what_may_not_be_deleted_stays() {
    let world = World::new();
    world.write("d/a", "a");
    world.read("d/a");
    world.write("d/a", "changed");
    let failure = world.failure("dir-delete", &json!({"path": "d"}));
    assert!(
        matches!(&failure, ToolFailure::Stale { why: StaleWhy::Changed, path, .. } if path.to_string() == "d/a"),
        "{failure:?}"
    );
    world.write("r/sub/.git/HEAD", "x");
    world.link("link", "d");
    for (path, said) in [
        ("r", "r/sub holds a repository of its own, r/sub/.git"),
        (
            "r/sub/.git",
            "`r/sub/.git` cannot be used: `.git` belongs to git",
        ),
        ("link", "link is a link, a folder is needed"),
        ("d/a", "d/a is a file, a folder is needed"),
        ("missing", "missing does not exist"),
        (".", "`.` is the root of the sandbox"),
    ] {
        let failure = world
            .failure("dir-delete", &json!({"path": path}))
            .to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
    assert_eq!(names(&world.path("")), ["d", "link", "r"]);
    assert!(world.path("r/sub/.git/HEAD").exists());
}
