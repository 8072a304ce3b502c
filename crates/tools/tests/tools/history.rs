//! The sandbox's changes and history, as tools report them.

use cleveragents_ports::sandbox::{DiffChange, DiffLines, DiffStat, LogEntry, TreeDiff};
use serde_json::{Value, json};

use crate::fixture::ToolFixture;

fn stat(path: &str, change: DiffChange, lines: DiffLines) -> DiffStat {
    DiffStat {
        path: path.parse().unwrap(),
        renamed_from: (change == DiffChange::Renamed).then(|| "old".parse().unwrap()),
        change,
        lines,
    }
}

fn text(inserted: u64, deleted: u64) -> DiffLines {
    DiffLines::Text { inserted, deleted }
}

fn fixture_with_changes() -> ToolFixture {
    let mut fixture = ToolFixture::new();
    let patch = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n";
    fixture.sandbox.diff = TreeDiff {
        patch: patch.into(),
        files: vec![
            stat("a", DiffChange::Modified, text(1, 1)),
            stat("image", DiffChange::Added, DiffLines::Binary),
            stat("new", DiffChange::Renamed, text(0, 0)),
        ],
    };
    fixture
}

#[test]
fn the_status_lists_the_change_of_each_file() {
    let fixture = fixture_with_changes();
    let data = fixture.data("git-status", &json!({}));
    assert_eq!(
        data,
        json!({
            "files": [
                {"path": "a", "change": "modified", "inserted": 1, "deleted": 1, "binary": false},
                {"path": "image", "change": "added", "binary": true},
                {"path": "new", "change": "renamed", "from": "old", "inserted": 0, "deleted": 0, "binary": false},
            ],
            "left_out": 0,
        })
    );
}

#[test]
fn the_diff_covers_everything_or_one_path() {
    let fixture = fixture_with_changes();
    let data = fixture.data("git-diff", &json!({}));
    assert!(data["patch"].as_str().unwrap().ends_with("-1\n+2\n"));
    assert_eq!(
        (&data["truncated"], &data["left_out"]),
        (&json!(false), &json!(0))
    );
    for (path, asked) in [
        (".", "diff []"),
        ("src/a/", "diff [ResourcePath([115, 114, 99, 47, 97])]"),
    ] {
        fixture.data("git-diff", &json!({"path": path}));
        assert_eq!(
            fixture.sandbox.requests.lock().unwrap().last().unwrap(),
            asked
        );
    }
}

#[test]
fn a_long_diff_and_a_long_status_are_bounded() {
    let mut fixture = fixture_with_changes();
    let files = (0..1500).map(|number| stat(&number.to_string(), DiffChange::Added, text(1, 0)));
    fixture.sandbox.diff.files = files.collect();
    fixture.sandbox.diff.patch = "+line\n".repeat(100_000).into_bytes();
    let data = fixture.data("git-diff", &json!({}));
    let shown = data["patch"].as_str().unwrap().len() as u64;
    assert!(shown <= 256 << 10);
    assert_eq!(data["left_out"].as_u64().unwrap() + shown, 600_000);
    assert_eq!(data["truncated"], true);
    let data = fixture.data("git-status", &json!({}));
    assert_eq!(data["files"].as_array().map(Vec::len), Some(1000));
    assert_eq!(data["left_out"], 500);
}

#[test]
fn the_log_lists_commits_up_to_the_limit() {
    let mut fixture = ToolFixture::new();
    assert_eq!(fixture.data("git-log", &json!({})), json!({"commits": []}));
    fixture.sandbox.commits = vec![LogEntry {
        id: "0123456789ab".into(),
        author: "Ann".into(),
        seconds: 1_700_000_000,
        subject: "s".repeat(1000),
    }];
    let data = fixture.data("git-log", &json!({"path": "src", "limit": 5}));
    let commit: &Value = &data["commits"][0];
    assert_eq!(commit["time"], "2023-11-14T22:13:20Z");
    assert_eq!(commit["subject"].as_str().unwrap().len(), 200);
    let requests = fixture.sandbox.requests.lock().unwrap();
    assert_eq!(
        *requests,
        ["log None 20", "log Some(ResourcePath([115, 114, 99])) 5"]
    );
}
