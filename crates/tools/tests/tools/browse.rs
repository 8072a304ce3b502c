//! Tests of listing and searching.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::fixture::ToolFixture;

fn paths(data: &Value, list: &str) -> Vec<String> {
    let entries = data[list].as_array().unwrap().iter();
    entries
        .map(|it| it["path"].as_str().unwrap().to_owned())
        .collect()
}

fn project() -> ToolFixture {
    let fixture = ToolFixture::new();
    fixture.write(".gitignore", "target/\n*.log\n!keep.log\n");
    fixture.write(".git", "gitdir: elsewhere\n");
    fixture.write("src/main.rs", "fn main() {}\n// needle\n");
    fixture.write("src/deep/er.rs", "needle and needle\n");
    fixture.write("src/.gitignore", "gen\n");
    fixture.write("src/gen", "needle\n");
    fixture.write("target/out/main.rs", "needle\n");
    fixture.write("a.log", "needle\n");
    fixture.write("keep.log", "needle\n");
    fixture.write("nested/.git/config", "needle\n");
    fixture.write("nested/file", "needle\n");
    fixture.write("image", b"\0needle\n");
    fixture.link("link", "src/main.rs");
    fixture.link("leaves", fixture.outside());
    fixture
}

#[test]
fn a_listing_is_sorted_and_skips_ignored_files() {
    let fixture = project();
    let data = fixture.data("file-list", &json!({}));
    let expected = [
        ".gitignore",
        "image",
        "keep.log",
        "leaves",
        "link",
        "nested",
        "src",
    ];
    assert_eq!(paths(&data, "entries"), expected);
    assert_eq!(data["path"], ".");
    assert_eq!(
        data["entries"][1],
        json!({"path": "image", "kind": "file", "size": 8})
    );
    assert_eq!(data["entries"][4], json!({"path": "link", "kind": "link"}));
    let data = fixture.data("file-list", &json!({"path": "src", "depth": 5}));
    let expected = [
        "src/.gitignore",
        "src/deep",
        "src/deep/er.rs",
        "src/main.rs",
    ];
    assert_eq!(paths(&data, "entries"), expected);
    let data = fixture.data("file-list", &json!({"path": "nested"}));
    assert_eq!(paths(&data, "entries"), ["nested/file"]);
    // A call that names an ignored folder shows its content.
    let data = fixture.data("file-list", &json!({"path": "target", "depth": 2}));
    assert_eq!(
        paths(&data, "entries"),
        ["target/out", "target/out/main.rs"]
    );
}

#[test]
fn a_large_folder_gives_a_bounded_listing() {
    let fixture = ToolFixture::new();
    for number in 0..1500 {
        fixture.write(&format!("a/{number:04}"), "");
    }
    for number in 0..600 {
        fixture.write(&format!("z{number:03}"), "");
    }
    let data = fixture.data("file-list", &json!({"depth": 9}));
    let listed = paths(&data, "entries");
    assert_eq!((listed.len(), &data["left_out"]), (1000, &json!(1101)));
    assert_eq!(
        listed.iter().filter(|path| path.starts_with('z')).count(),
        600
    );
    assert_eq!(listed[..2], ["a", "a/0000"]);
}

#[test]
fn an_unlistable_path_reports_the_reason() {
    let fixture = project();
    for (path, said) in [
        ("image", "image is a file, a folder is needed"),
        ("missing", "missing does not exist"),
        (
            "leaves",
            "`leaves` leaves the sandbox: the link leaves leads out of it",
        ),
        (".git", "`.git` cannot be used: `.git` belongs to git"),
        (
            "nested/.git",
            "`nested/.git` cannot be used: `.git` belongs to git",
        ),
    ] {
        let failure = fixture
            .failure("file-list", &json!({"path": path}))
            .to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
}

#[test]
fn a_search_skips_ignored_binary_and_outside_files() {
    let fixture = project();
    let data = fixture.data("file-search", &json!({"pattern": "needle|secret"}));
    let expected = ["keep.log", "nested/file", "src/deep/er.rs", "src/main.rs"];
    assert_eq!(paths(&data, "matches"), expected);
    let last = json!({"path": "src/main.rs", "line": 2, "text": "// needle"});
    assert_eq!(data["matches"][3], last);
    assert_eq!(data["left_out"], 0);
    for (input, expected) in [
        (json!({"pattern": "NEEDLE"}), &[][..]),
        (
            json!({"pattern": "(?i)NEEDLE", "path": "src"}),
            &["src/deep/er.rs", "src/main.rs"],
        ),
        (
            json!({"pattern": "needle", "glob": "*.rs"}),
            &["src/deep/er.rs", "src/main.rs"],
        ),
        (
            json!({"pattern": "needle", "glob": "src/*.rs"}),
            &["src/main.rs"],
        ),
        (
            json!({"pattern": "needle", "glob": "src/**/e*.rs"}),
            &["src/deep/er.rs"],
        ),
        (
            json!({"pattern": "^needle$", "path": "nested/file"}),
            &["nested/file"],
        ),
        (
            json!({"pattern": "needle", "path": "link"}),
            &["src/main.rs"],
        ),
        (json!({"pattern": "needle", "path": "a.log"}), &["a.log"]),
        (
            json!({"pattern": "needle", "path": "target"}),
            &["target/out/main.rs"],
        ),
    ] {
        let data = fixture.data("file-search", &input);
        assert_eq!(paths(&data, "matches"), expected, "{input}");
    }
}

#[test]
fn line_anchors_match_both_line_endings() {
    let fixture = ToolFixture::new();
    fixture.write("dos", "one\r\na needle\r\nthree\r\n");
    fixture.write("unix", "one\na needle\nthree\n");
    for pattern in ["needle$", "^a", "^a needle$"] {
        let data = fixture.data("file-search", &json!({"pattern": pattern}));
        assert_eq!(paths(&data, "matches"), ["dos", "unix"], "{pattern}");
        assert_eq!(data["matches"][0]["text"], "a needle");
    }
}

#[test]
fn a_search_with_many_or_long_matches_is_bounded_and_counts_the_rest() {
    let fixture = ToolFixture::new();
    fixture.write("many", "hit\n".repeat(1000));
    fixture.write("wide", format!("hit{}\n", "é".repeat(10_000)));
    let data = fixture.data("file-search", &json!({"pattern": "hit"}));
    assert_eq!(paths(&data, "matches").len(), 250);
    assert_eq!(data["left_out"], 751);
    let data = fixture.data("file-search", &json!({"pattern": "hit", "path": "wide"}));
    let text = data["matches"][0]["text"].as_str().unwrap();
    assert!(text.len() < 420 && text.ends_with('…'), "{text}");
}

#[test]
fn an_invalid_search_reports_the_reason() {
    let fixture = project();
    for (input, said) in [
        (json!({"pattern": "("}), "`pattern` cannot be used: "),
        (json!({"pattern": "a\nb"}), "`pattern` cannot be used: "),
        (
            json!({"pattern": "(?:a{1000}){1000}"}),
            "`pattern` cannot be used: ",
        ),
        (
            json!({"pattern": "a", "glob": "["}),
            "`glob` cannot be used: ",
        ),
        (
            json!({"pattern": "a", "path": "missing"}),
            "missing does not exist",
        ),
        (
            json!({"pattern": "a", "path": "leaves"}),
            "`leaves` leaves the sandbox",
        ),
    ] {
        let failure = fixture.failure("file-search", &input).to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
}

#[test]
fn an_unreadable_folder_is_reported_and_skipped() {
    let fixture = ToolFixture::new();
    fixture.write("closed/a", "hit\n");
    fixture.write("open/a", "hit\n");
    let closed = fixture.path("closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read everything.
    let is_closed = std::fs::read_dir(&closed).is_err();
    let listed = fixture.data("file-list", &json!({"depth": 2}));
    let found = fixture.data("file-search", &json!({"pattern": "hit"}));
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let unreadable = if is_closed {
        json!(["closed"])
    } else {
        Value::Null
    };
    assert_eq!(listed["unreadable"], unreadable);
    assert_eq!(found["passed_over"], u64::from(is_closed));
    assert!(paths(&found, "matches").contains(&"open/a".to_owned()));
}
