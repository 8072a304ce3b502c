//! Files that git runs a filter on: new content is refused by name before anything is changed.

use cleveragents_engine::ports::tools::ToolFailure;
use serde_json::{Value, json};

use crate::world::{World, names};

#[track_caller]
fn is_refused(world: &World, tool: &str, input: &Value, name: &str) {
    match world.failure(tool, input) {
        ToolFailure::Refused { reason, paths, .. } => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!(paths, [name], "{tool}");
            assert!(reason.contains(name), "{reason}");
            assert!(reason.contains("`sandbox.allow-filters`"), "{reason}");
        }
        other => panic!("{tool}: {other:?}"),
    }
}

#[test]
fn new_content_is_refused_before_anything_is_changed() {
    let world = World::new();
    world.write("x.bin", "pointer\n");
    world.write("a", "1\n");
    for name in ["x.bin", "a"] {
        world.read(name);
    }
    let from_to = |from: &str, to: &str| json!({"from": from, "to": to});
    for (tool, input, name) in [
        (
            "file-write",
            json!({"path": "x.bin", "content": "2"}),
            "x.bin",
        ),
        (
            "file-write",
            json!({"path": "d/y.bin", "content": "2"}),
            "d/y.bin",
        ),
        (
            "file-edit",
            json!({"path": "x.bin", "old": "p", "new": "q"}),
            "x.bin",
        ),
        ("file-move", from_to("x.bin", "plain"), "x.bin"),
        ("file-move", from_to("a", "d/y.bin"), "d/y.bin"),
        ("file-copy", from_to("a", "x.bin"), "x.bin"),
        ("file-copy", from_to("a", "d/y.bin"), "d/y.bin"),
    ] {
        is_refused(&world, tool, &input, name);
        assert_eq!(names(&world.path("")), ["a", "x.bin"], "{tool} {input}");
        assert_eq!(world.content("x.bin"), "pointer\n", "{tool} {input}");
    }
    // A link stands for what is written.
    world.link("link", "x.bin");
    let input = json!({"path": "link", "content": "2"});
    is_refused(&world, "file-write", &input, "x.bin");
    // Reading, copying from one and removing one need no filter.
    world.data("file-copy", &from_to("x.bin", "copy"));
    world.data("file-delete", &json!({"path": "x.bin"}));
    assert_eq!(names(&world.path("")), ["a", "copy", "link"]);
}
