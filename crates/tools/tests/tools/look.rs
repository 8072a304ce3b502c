//! Listing and searching.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::world::World;

fn paths(data: &Value, list: &str) -> Vec<String> {
    let entries = data[list].as_array().unwrap().iter();
    entries
        .map(|it| it["path"].as_str().unwrap().to_owned())
        .collect()
}

fn project() -> World {
    let world = World::new();
    world.write(".gitignore", "target/\n*.log\n!keep.log\n");
    world.write(".git", "gitdir: elsewhere\n");
    world.write("src/main.rs", "fn main() {}\n// needle\n");
    world.write("src/deep/er.rs", "needle and needle\n");
    world.write("src/.gitignore", "gen\n");
    world.write("src/gen", "needle\n");
    world.write("target/out/main.rs", "needle\n");
    world.write("a.log", "needle\n");
    world.write("keep.log", "needle\n");
    world.write("nested/.git/config", "needle\n");
    world.write("nested/file", "needle\n");
    world.write("image", b"\0needle\n");
    world.link("link", "src/main.rs");
    world.link("leaves", world.outside());
    world
}

#[test]
fn a_listing_is_in_order_and_leaves_out_what_is_ignored() {
    let world = project();
    let data = world.data("file-list", &json!({}));
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
    let data = world.data("file-list", &json!({"path": "src", "depth": 5}));
    let expected = [
        "src/.gitignore",
        "src/deep",
        "src/deep/er.rs",
        "src/main.rs",
    ];
    assert_eq!(paths(&data, "entries"), expected);
    let data = world.data("file-list", &json!({"path": "nested"}));
    assert_eq!(paths(&data, "entries"), ["nested/file"]);
    // Who names an ignored folder wants to see it.
    let data = world.data("file-list", &json!({"path": "target", "depth": 2}));
    assert_eq!(
        paths(&data, "entries"),
        ["target/out", "target/out/main.rs"]
    );
}

#[test]
fn a_crowded_folder_gives_a_bounded_listing_with_the_nearest_first() {
    let world = World::new();
    for number in 0..1500 {
        world.write(&format!("a/{number:04}"), "");
    }
    for number in 0..600 {
        world.write(&format!("z{number:03}"), "");
    }
    let data = world.data("file-list", &json!({"depth": 9}));
    let listed = paths(&data, "entries");
    assert_eq!((listed.len(), &data["left_out"]), (1000, &json!(1101)));
    assert_eq!(
        listed.iter().filter(|path| path.starts_with('z')).count(),
        600
    );
    assert_eq!(listed[..2], ["a", "a/0000"]);
}

#[test]
fn what_cannot_be_listed_is_named() {
    let world = project();
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
        let failure = world
            .failure("file-list", &json!({"path": path}))
            .to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
}

#[test]
fn a_search_finds_lines_and_passes_over_what_is_ignored_binary_or_outside() {
    let world = project();
    let data = world.data("file-search", &json!({"pattern": "needle|secret"}));
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
        let data = world.data("file-search", &input);
        assert_eq!(paths(&data, "matches"), expected, "{input}");
    }
}

#[test]
fn the_end_of_a_line_is_its_end_whatever_ends_it() {
    let world = World::new();
    world.write("dos", "one\r\na needle\r\nthree\r\n");
    world.write("unix", "one\na needle\nthree\n");
    for pattern in ["needle$", "^a", "^a needle$"] {
        let data = world.data("file-search", &json!({"pattern": pattern}));
        assert_eq!(paths(&data, "matches"), ["dos", "unix"], "{pattern}");
        assert_eq!(data["matches"][0]["text"], "a needle");
    }
}

#[test]
fn a_search_with_many_or_long_matches_is_bounded_and_counts_the_rest() {
    let world = World::new();
    world.write("many", "hit\n".repeat(1000));
    world.write("wide", format!("hit{}\n", "é".repeat(10_000)));
    let data = world.data("file-search", &json!({"pattern": "hit"}));
    assert_eq!(paths(&data, "matches").len(), 250);
    assert_eq!(data["left_out"], 751);
    let data = world.data("file-search", &json!({"pattern": "hit", "path": "wide"}));
    let text = data["matches"][0]["text"].as_str().unwrap();
    assert!(text.len() < 420 && text.ends_with('…'), "{text}");
}

#[test]
fn a_search_that_cannot_be_understood_says_why() {
    let world = project();
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
        let failure = world.failure("file-search", &input).to_string();
        assert!(failure.starts_with(said), "{failure}");
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_named_and_the_rest_is_shown() {
    let world = World::new();
    world.write("closed/a", "hit\n");
    world.write("open/a", "hit\n");
    let closed = world.path("closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything.
    let is_closed = std::fs::read_dir(&closed).is_err();
    let listed = world.data("file-list", &json!({"depth": 2}));
    let found = world.data("file-search", &json!({"pattern": "hit"}));
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
