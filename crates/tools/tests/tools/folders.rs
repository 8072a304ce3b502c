//! Creating and deleting folders.

use std::fs;

use cleveragents_ports::tools::{StaleReason, ToolFailure};
use serde_json::json;

use crate::fixture::{ToolFixture, names, touched};

#[test]
fn creating_an_existing_folder_changes_nothing() {
    let fixture = ToolFixture::new();
    let input = json!({"path": "a/b/c"});
    let output = fixture.run("dir-create", &input).unwrap();
    assert_eq!(output.data, json!({"path": "a/b/c", "result": "created"}));
    assert_eq!(output.touched, touched(&["a/b/c"]));
    let output = fixture.run("dir-create", &input).unwrap();
    assert_eq!(output.data["result"], "unchanged");
    assert_eq!(output.touched, touched(&[]));
    fixture.write("file", "x");
    fixture.link("leaves", fixture.outside());
    for (path, said) in [
        ("file", "file is a file, a folder or nothing is needed"),
        ("file/x", "`file/x` does not exist: file is not a folder"),
        (
            "leaves/x",
            "`leaves/x` leaves the sandbox: the link leaves leads out of it",
        ),
    ] {
        assert_eq!(
            fixture
                .failure("dir-create", &json!({"path": path}))
                .to_string(),
            said
        );
    }
    fixture.assert_outside_untouched();
}

#[test]
fn a_folder_is_deleted_with_its_contents_only() {
    let fixture = ToolFixture::new();
    fixture.write("d/a", "a");
    fixture.write("d/e/b", "b");
    fs::create_dir(fixture.path("d/empty")).unwrap();
    fixture.link("d/leaves", fixture.outside());
    fixture.link("d/up", "..");
    fixture.write("stays", "x");
    let output = fixture.run("dir-delete", &json!({"path": "d"})).unwrap();
    assert_eq!(output.data, json!({"path": "d", "files": 4, "folders": 2}));
    assert_eq!(output.touched, touched(&["d"]));
    assert_eq!(names(&fixture.path("")), ["stays"]);
    fixture.assert_outside_untouched();
}

#[test]
fn a_refused_deletion_changes_nothing() {
    let fixture = ToolFixture::new();
    fixture.write("d/a", "a");
    fixture.read("d/a");
    fixture.write("d/a", "changed");
    let failure = fixture.failure("dir-delete", &json!({"path": "d"}));
    assert!(
        matches!(&failure, ToolFailure::Stale { why: StaleReason::Changed, path, .. } if path.to_string() == "d/a"),
        "{failure:?}"
    );
    fixture.write("r/sub/.git/HEAD", "x");
    fixture.link("link", "d");
    for (path, said) in [
        ("r", "r/sub contains a git repository, r/sub/.git"),
        (
            "r/sub/.git",
            "`r/sub/.git` cannot be used: `.git` belongs to git",
        ),
        ("link", "link is a link, a folder is needed"),
        ("d/a", "d/a is a file, a folder is needed"),
        ("missing", "missing does not exist"),
        (".", "`.` is the root of the sandbox"),
    ] {
        let failure = fixture
            .failure("dir-delete", &json!({"path": path}))
            .to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
    assert_eq!(names(&fixture.path("")), ["d", "link", "r"]);
    assert!(fixture.path("r/sub/.git/HEAD").exists());
}
