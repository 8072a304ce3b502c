//! Attempts to leave a sandbox: nothing outside is shown or changed.

use std::os::unix::net::UnixListener;

use cleveragents_ports::tools::ToolFailure;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::fixture::{SECRET, ToolFixture, names};

/// Creates the tree of these tests.
fn sandbox_with_traps() -> ToolFixture {
    let fixture = ToolFixture::new();
    fixture.write("file", "content\n");
    fixture.write("folder/inner", "content\n");
    fixture.write(".git", "gitdir: /somewhere\n");
    fixture.write("nested/.git/config", "[core]\n");
    fixture.link("to-secret", fixture.outside().join("secret"));
    fixture.link("to-outside", fixture.outside());
    fixture.link("relative", "../outside");
    fixture.link("relative-secret", "folder/../../outside/secret");
    fixture.link("chain-1", "chain-2");
    fixture.link("chain-2", "folder/chain-3");
    fixture.link("folder/chain-3", "../../outside/secret");
    fixture.link("loop-a", "loop-b");
    fixture.link("loop-b", "loop-a");
    fixture.link("proc", "/proc/self/root");
    fixture.link("fd", "/proc/self/fd");
    fixture.link("etc", "/etc");
    fixture.link("to-git", ".git");
    fixture.link("to-nested-git", "nested/.git");
    fixture.link("zero", "/dev/zero");
    let fifo = Mode::from_raw_mode(0o600);
    mknodat(CWD, fixture.path("fifo"), FileType::Fifo, fifo, 0).unwrap();
    drop(UnixListener::bind(fixture.path("socket")).unwrap());
    fixture
}

/// Paths that must not be reached, and the error, for reading and writing.
const PATHS: &[(&str, &str)] = &[
    ("..", "must not contain the component `..`"),
    ("../outside/secret", "must not contain the component `..`"),
    (
        "folder/../../outside/secret",
        "must not contain the component `..`",
    ),
    ("folder/..", "must not contain the component `..`"),
    (
        "%2e%2e/outside/secret",
        "must not contain the component `..`",
    ),
    (
        "folder%2F..%2F..%2Foutside",
        "must not contain the component `..`",
    ),
    ("/etc/passwd", "must not begin with `/`"),
    ("//etc/passwd", "must not begin with `/`"),
    ("%2Fetc/passwd", "must not begin with `/`"),
    ("", "must not be empty"),
    ("a\0b", "NUL character"),
    ("a%00b", "NUL character"),
    ("bad%zz", "must be followed by two hexadecimal digits"),
    ("to-secret", "the link to-secret leads out of it"),
    ("to-outside/secret", "the link to-outside leads out of it"),
    ("relative/secret", "the link relative leads out of it"),
    (
        "relative-secret",
        "the link relative-secret leads out of it",
    ),
    ("chain-1", "the link folder/chain-3 leads out of it"),
    ("loop-a", "too many links"),
    ("loop-a/x", "too many links"),
    ("proc/etc/passwd", "the link proc leads out of it"),
    ("fd/0", "the link fd leads out of it"),
    ("etc/passwd", "the link etc leads out of it"),
    ("zero", "the link zero leads out of it"),
    (".git", "belongs to git"),
    (".GIT", "belongs to git"),
    (".Git/config", "belongs to git"),
    ("nested/.git/config", "belongs to git"),
    ("nested/.gIt/hooks/post-commit", "belongs to git"),
    ("to-git", "belongs to git"),
    ("to-nested-git/config", "belongs to git"),
    ("fifo", "fifo is a FIFO, a file is needed"),
    ("socket", "socket is a socket, a file is needed"),
    ("folder", "folder is a folder, a file is needed"),
    ("file/x", "file is not a folder"),
    (".", "is the root of the sandbox"),
];

/// Names that may be read but never written.
const UNWRITABLE: &[(&str, &str)] = &[
    (".git.", "belongs to git"),
    (".git ", "belongs to git"),
    (".git. . ", "belongs to git"),
    ("git~1", "belongs to git"),
    ("GIT~1/config", "belongs to git"),
    (".git::$INDEX_ALLOCATION/config", "belongs to git"),
    (".git\\config", "belongs to git"),
    ("a\\.git", "belongs to git"),
    (".g\u{200c}it/config", "belongs to git"),
    ("folder/\u{feff}.GIT", "belongs to git"),
    ("%FF", "a new name is UTF-8"),
    ("a%0Ab", "a new name has no control characters"),
    ("folder/%1B[2J", "a new name has no control characters"),
];

fn failure_message(fixture: &ToolFixture, tool: &str, input: &Value) -> String {
    match fixture.failure(tool, input) {
        ToolFailure::Stale { content, .. } => {
            assert!(!content.contains(SECRET.trim()), "{tool} {input}");
            panic!("{tool} {input} found a file")
        }
        other => other.to_string(),
    }
}

#[test]
fn no_path_leaves_the_sandbox() {
    let fixture = sandbox_with_traps();
    assert!(PATHS.len() + UNWRITABLE.len() >= 20);
    let before = names(&fixture.path(""));
    for (path, said) in PATHS {
        for (tool, input) in [
            ("file-read", json!({"path": path})),
            ("outline", json!({"path": path})),
            ("file-write", json!({"path": path, "content": "mine\n"})),
            (
                "file-edit",
                json!({"path": path, "old": "secret", "new": "mine"}),
            ),
            ("file-copy", json!({"from": path, "to": "stolen"})),
        ] {
            let message = failure_message(&fixture, tool, &input);
            assert!(message.contains(said), "{tool} {path}: {message}");
        }
    }
    assert_eq!(names(&fixture.path("")), before);
    fixture.assert_outside_untouched();
}

#[test]
fn names_reserved_for_git_are_not_written() {
    let fixture = sandbox_with_traps();
    let before = names(&fixture.path(""));
    for (path, said) in UNWRITABLE
        .iter()
        .chain(PATHS.iter().filter(|row| row.1 == "belongs to git"))
    {
        for (tool, input) in [
            ("file-write", json!({"path": path, "content": "mine\n"})),
            ("file-copy", json!({"from": "file", "to": path})),
            ("file-move", json!({"from": "file", "to": path})),
            ("dir-create", json!({"path": path})),
        ] {
            // A link into `.git` is itself an ordinary name and is not followed.
            if path.starts_with("to-") && !path.contains('/') && tool != "file-write" {
                continue;
            }
            let message = failure_message(&fixture, tool, &input);
            assert!(message.contains(said), "{tool} {path}: {message}");
        }
    }
    assert_eq!(names(&fixture.path("")), before);
    assert_eq!(names(&fixture.path("nested/.git")), ["config"]);
}

#[test]
fn nothing_outside_is_removed_or_moved() {
    let fixture = sandbox_with_traps();
    for (tool, input) in [
        ("file-delete", json!({"path": "to-outside/secret"})),
        ("file-delete", json!({"path": "relative/secret"})),
        ("file-delete", json!({"path": "../outside/secret"})),
        ("file-delete", json!({"path": ".git"})),
        ("dir-delete", json!({"path": "to-outside"})),
        ("dir-delete", json!({"path": "nested/.git"})),
        ("dir-delete", json!({"path": "nested"})),
        (
            "file-move",
            json!({"from": "to-outside/secret", "to": "mine"}),
        ),
        (
            "file-move",
            json!({"from": "file", "to": "to-outside/file"}),
        ),
        ("file-copy", json!({"from": "file", "to": "relative/file"})),
        ("file-move", json!({"from": ".git", "to": "git"})),
        ("file-list", json!({"path": "to-outside"})),
        (
            "file-search",
            json!({"pattern": "secret", "path": "relative"}),
        ),
        ("git-diff", json!({"path": "../outside"})),
        ("git-log", json!({"path": "/etc"})),
    ] {
        failure_message(&fixture, tool, &input);
    }
    assert!(fixture.path(".git").exists() && fixture.path("nested/.git/config").exists());
    fixture.assert_outside_untouched();
}

#[test]
fn a_search_and_a_listing_touch_no_special_file_and_follow_no_link() {
    let fixture = sandbox_with_traps();
    let found = fixture.data("file-search", &json!({"pattern": "secret|core|gitdir"}));
    assert_eq!(found["matches"], json!([]));
    let listed = fixture
        .data("file-list", &json!({"depth": 100}))
        .to_string();
    assert!(
        !listed.contains(".git") && !listed.contains("to-outside/"),
        "{listed}"
    );
    assert!(
        listed.contains("FIFO") && listed.contains("socket"),
        "{listed}"
    );
}

#[test]
fn too_long_paths_are_refused() {
    let fixture = ToolFixture::new();
    let long_name = "n".repeat(256);
    let long_path = "d/".repeat(150) + &"x/".repeat(60);
    let very_long = format!("{}/", "n".repeat(250)).repeat(20);
    for (path, said) in [
        (long_name.as_str(), "a name has at most 255 bytes"),
        (&long_path, "at most 4096 bytes and 200 names"),
        (&very_long, "at most 4096 bytes and 200 names"),
    ] {
        let input = json!({"path": path, "content": ""});
        let message = failure_message(&fixture, "file-write", &input);
        assert!(message.contains(said) && message.len() < 400, "{message}");
    }
    let longest = "n".repeat(255);
    fixture.data("file-write", &json!({"path": longest, "content": "x"}));
    assert_eq!(fixture.read(&longest)["content"], "x");
    assert_eq!(names(&fixture.path("")), [longest]);
}
