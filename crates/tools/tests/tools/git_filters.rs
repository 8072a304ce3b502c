//! Files with a git filter: new content is refused by name before anything is changed.

use cleveragents_ports::tools::ToolFailure;
use serde_json::{Value, json};

use crate::fixture::{ToolFixture, names};

#[track_caller]
fn assert_refused(fixture: &ToolFixture, tool: &str, input: &Value, name: &str) {
    match fixture.failure(tool, input) {
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
    let fixture = ToolFixture::new();
    fixture.write("x.bin", "pointer\n");
    fixture.write("a", "1\n");
    for name in ["x.bin", "a"] {
        fixture.read(name);
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
        assert_refused(&fixture, tool, &input, name);
        assert_eq!(names(&fixture.path("")), ["a", "x.bin"], "{tool} {input}");
        assert_eq!(fixture.content("x.bin"), "pointer\n", "{tool} {input}");
    }
    // A link is followed, so the refusal names its target.
    fixture.link("link", "x.bin");
    let input = json!({"path": "link", "content": "2"});
    assert_refused(&fixture, "file-write", &input, "x.bin");
    // Reading, copying from and removing such a file need no filter.
    fixture.data("file-copy", &from_to("x.bin", "copy"));
    fixture.data("file-delete", &json!({"path": "x.bin"}));
    assert_eq!(names(&fixture.path("")), ["a", "copy", "link"]);
}
