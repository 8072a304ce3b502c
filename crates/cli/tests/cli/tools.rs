//! Tools tried on real checkouts: the user's files do not change, and nothing is left behind.

use std::path::Path;

use serde_json::{Value, json};

use crate::environment::{CliRun, PATH, TestEnvironment};

/// A checkout with one commit, and a changed, a staged and an untracked file.
fn checkout_environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", PATH);
    environment.write("work/a.txt", "one\n");
    environment.write("work/src/main.rs", "fn main() {}\n");
    environment.write("work/.gitignore", "*.log\n");
    let script = "git init -q -b main && git add -A && \
        git -c user.name=Ann -c user.email=ann@localhost commit -qm 'first: one' && \
        echo changed >> a.txt && echo staged > staged && git add staged && echo new > new && \
        echo ignored > x.log";
    environment.shell(&[], script).succeeded();
    environment
}

/// Returns the user's whole state: files, index, refs, configuration.
fn working_tree_state(environment: &TestEnvironment) -> String {
    let script = "git status --porcelain=v2 && git for-each-ref && cat .git/config && \
        find . -path ./.git -prune -o -type f -exec sha256sum {} + | sort";
    environment.shell(&[], script).succeeded().stdout
}

fn count_sandboxes(environment: &TestEnvironment) -> usize {
    let folder = environment.path(".cleveragents/sandboxes");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn run_tool(environment: &TestEnvironment, tool: &str, input: &Value) -> CliRun {
    let input = input.to_string();
    environment.run(&["tool", "run", tool, "--input", &input, "--format", "json"])
}

/// Tools, their inputs, and the paths that they change.
fn tool_calls() -> Vec<(&'static str, Value, &'static [&'static str])> {
    vec![
        ("file-read", json!({"path": "a.txt"}), &[]),
        (
            "file-write",
            json!({"path": "a.txt", "content": "other\n"}),
            &["a.txt"],
        ),
        (
            "file-write",
            json!({"path": "d/new", "content": ""}),
            &["d/new"],
        ),
        (
            "file-edit",
            json!({"path": "staged", "old": "staged", "new": "x"}),
            &["staged"],
        ),
        (
            "file-move",
            json!({"from": "new", "to": "newer"}),
            &["newer"],
        ),
        (
            "file-move",
            json!({"from": "src", "to": "lib"}),
            &["lib/main.rs"],
        ),
        (
            "file-copy",
            json!({"from": "a.txt", "to": "b.txt"}),
            &["b.txt"],
        ),
        ("file-delete", json!({"path": "a.txt"}), &["a.txt"]),
        ("dir-delete", json!({"path": "src"}), &["src/main.rs"]),
        ("dir-create", json!({"path": "empty"}), &[]),
        ("file-list", json!({"depth": 9}), &[]),
        ("file-search", json!({"pattern": "main"}), &[]),
        ("outline", json!({"path": "src/main.rs"}), &[]),
        ("git-status", json!({}), &[]),
        ("git-diff", json!({"path": "src"}), &[]),
        ("git-log", json!({"limit": 1}), &[]),
    ]
}

#[test]
fn every_tool_leaves_the_working_tree_unchanged() {
    let environment = checkout_environment();
    let before = working_tree_state(&environment);
    for (tool, input, changed) in tool_calls() {
        let answer = run_tool(&environment, tool, &input).succeeded().json();
        let changes = answer["data"]["changes"].as_array().unwrap();
        let paths: Vec<&str> = changes
            .iter()
            .map(|it| it["path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, changed, "{tool}");
        let patch = answer["data"]["patch"].as_str().unwrap();
        assert_eq!(patch.is_empty(), changed.is_empty(), "{tool}");
        assert_eq!(working_tree_state(&environment), before, "{tool}");
        assert_eq!(count_sandboxes(&environment), 0, "{tool}");
    }
}

#[test]
fn tools_see_the_working_tree_and_its_history() {
    let environment = checkout_environment();
    let read = run_tool(&environment, "file-read", &json!({"path": "a.txt"})).json();
    assert_eq!(read["data"]["output"]["content"], "one\nchanged\n");
    let log = run_tool(&environment, "git-log", &json!({"path": "src"})).json();
    let commit = &log["data"]["output"]["commits"][0];
    assert_eq!(
        (&commit["subject"], &commit["author"]),
        (&json!("first: one"), &json!("Ann"))
    );
    let outline = run_tool(&environment, "outline", &json!({"path": "src/main.rs"})).json();
    assert_eq!(
        outline["data"]["output"],
        json!({
            "path": "src/main.rs",
            "language": "rust",
            "symbols": [{"kind": "function", "name": "main", "line": 1, "end_line": 1, "depth": 0}],
            "left_out": 0,
            "syntax_errors": false,
            "total_lines": 1,
        })
    );
    let listed = run_tool(&environment, "file-list", &json!({})).json();
    let listed = listed["data"]["output"].to_string();
    assert!(
        listed.contains("new") && !listed.contains("x.log"),
        "{listed}"
    );
    // No output contains a path of the machine.
    assert!(
        !listed.contains(environment.path("").to_str().unwrap()),
        "{listed}"
    );
}

#[test]
fn inputs_come_from_files_and_standard_input() {
    let environment = checkout_environment();
    environment.write("work/input.json", r#"{"path": "src/main.rs"}"#);
    let words = ["tool", "run", "file-read", "--format", "json", "--input"];
    let with = |last: &'static str| [&words[..], &[last]].concat();
    let answer = environment.run(&with("@input.json")).succeeded().json();
    assert_eq!(answer["data"]["output"]["content"], "fn main() {}\n");
    let piped = environment.run_with_input(&with("-"), br#"{"path": "src/main.rs"}"#);
    assert_eq!(piped.json()["data"]["output"], answer["data"]["output"]);
    for (given, stdin, said) in [
        ("@missing.json", "", "cannot read missing.json"),
        ("-", "", "standard input is not valid JSON"),
        ("-", "{", "standard input is not valid JSON"),
        ("[]", "", "builtin/file-read cannot use this input"),
        ("@", "", "cannot read "),
    ] {
        let run = environment.run_with_input(&with(given), stdin.as_bytes());
        assert_eq!(run.code, Some(2), "{given}: {run:?}");
        let message = run.json()["data"]["error"]["message"].clone();
        assert!(
            message.as_str().unwrap().starts_with(said),
            "{given}: {message}"
        );
    }
}

#[test]
fn failures_have_their_exit_codes_and_leave_nothing() {
    let environment = checkout_environment();
    let before = working_tree_state(&environment);
    for (tool, input, code, kind) in [
        ("nothing", json!({}), 3, "not_found"),
        ("file-read", json!({}), 2, "tool_input"),
        ("file-read", json!({"path": "/etc/passwd"}), 2, "tool_input"),
        (
            "file-write",
            json!({"path": ".git/config", "content": ""}),
            2,
            "tool_input",
        ),
        ("file-search", json!({"pattern": "("}), 2, "tool_input"),
        ("file-read", json!({"path": "missing"}), 1, "tool_failed"),
        ("outline", json!({"path": "../a.rs"}), 2, "tool_input"),
        ("outline", json!({"path": "a.txt"}), 1, "tool_failed"),
        ("outline", json!({"path": "missing.rs"}), 1, "tool_failed"),
        (
            "file-edit",
            json!({"path": "a.txt", "old": "zzz", "new": ""}),
            1,
            "tool_failed",
        ),
    ] {
        let run = run_tool(&environment, tool, &input);
        assert_eq!(run.code, Some(code), "{tool} {input}: {run:?}");
        assert_eq!(run.json()["data"]["error"]["kind"], kind, "{tool} {input}");
        assert_eq!(count_sandboxes(&environment), 0, "{tool} {input}");
    }
    assert_eq!(working_tree_state(&environment), before);
}

#[test]
fn a_sandbox_can_be_kept_and_inspected() {
    let environment = checkout_environment();
    let words = [
        "tool",
        "run",
        "file-write",
        "--keep",
        "--format",
        "json",
        "--input",
    ];
    let input = r#"{"path": "d/kept", "content": "kept\n"}"#;
    let answer = environment
        .run(&[&words[..], &[input]].concat())
        .succeeded()
        .json();
    let kept = answer["data"]["sandbox"]["kept"].as_str().unwrap();
    assert_eq!(environment.read(&Path::new(kept).join("d/kept")), "kept\n");
    assert_eq!(answer["data"]["sandbox"]["type"], "git-checkout");
    assert!(!environment.path("work/d").exists());
    assert_eq!(count_sandboxes(&environment), 1);
}

#[test]
fn a_folder_inside_a_repository_is_a_folder() {
    let environment = checkout_environment();
    let words = [
        "tool",
        "run",
        "file-list",
        "--path",
        "src",
        "--format",
        "json",
    ];
    let answer = environment.run(&words).succeeded().json();
    assert_eq!(answer["data"]["sandbox"]["type"], "fs-directory");
    assert_eq!(answer["data"]["output"]["entries"][0]["path"], "main.rs");
    let data = environment.path(".cleveragents");
    let own = ["tool", "run", "file-list", "--path", data.to_str().unwrap()];
    assert_eq!(environment.run(&own).code, Some(2));
}
