//! Commands about tools.

use super::{SnapshotCase, case, without_setup};
use crate::environment::{PATH, TestEnvironment};

pub(super) const CASES: &[SnapshotCase] = &[
    case("tool list", "", &["tool", "list"], without_setup),
    case(
        "tool list",
        "pattern",
        &["tool", "list", "DIR-"],
        without_setup,
    ),
    case(
        "tool list",
        "validations",
        &["tool", "list", "--type", "validation"],
        without_setup,
    ),
    case(
        "tool list",
        "no-pattern",
        &["tool", "list", "("],
        without_setup,
    ),
    case(
        "tool show",
        "",
        &["tool", "show", "builtin/file-read"],
        without_setup,
    ),
    case(
        "tool show",
        "control-tool",
        &["tool", "show", "submit-strategy"],
        without_setup,
    ),
    case(
        "tool show",
        "short",
        &["tool", "show", "git-status"],
        without_setup,
    ),
    case(
        "tool show",
        "unknown",
        &["tool", "show", "builtin/file-raed"],
        without_setup,
    ),
    case(
        "tool show",
        "no-name",
        &["tool", "show", "a b"],
        without_setup,
    ),
    case(
        "tool run",
        "",
        &[
            "tool",
            "run",
            "builtin/file-edit",
            "--input",
            r#"{"path": "notes.txt", "old": "two", "new": "zwei"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "list",
        &["tool", "run", "file-list", "--input", r#"{"depth": 3}"#],
        with_files,
    ),
    case(
        "tool run",
        "read",
        &[
            "tool",
            "run",
            "file-read",
            "--path",
            "src",
            "--input",
            r#"{"path": "main.rs"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "outline",
        &[
            "tool",
            "run",
            "outline",
            "--input",
            r#"{"path": "src/main.rs"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "no-outline",
        &[
            "tool",
            "run",
            "outline",
            "--input",
            r#"{"path": "notes.txt"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "nothing",
        &["tool", "run", "git-status"],
        with_files,
    ),
    case(
        "tool run",
        "unknown",
        &["tool", "run", "local/nothing"],
        with_files,
    ),
    case(
        "tool run",
        "control-tool",
        &["tool", "run", "finish", "--input", r#"{"summary": "Done"}"#],
        with_files,
    ),
    case(
        "tool run",
        "wrong-input",
        &[
            "tool",
            "run",
            "file-read",
            "--input",
            r#"{"path": 1, "line": 2}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "outside",
        &[
            "tool",
            "run",
            "file-read",
            "--input",
            r#"{"path": "../../etc/passwd"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "missing-file",
        &[
            "tool",
            "run",
            "file-read",
            "--input",
            r#"{"path": "missing"}"#,
        ],
        with_files,
    ),
    case(
        "tool run",
        "no-json",
        &["tool", "run", "file-read", "--input", "path=a"],
        with_files,
    ),
    case(
        "tool run",
        "no-directory",
        &["tool", "run", "file-list", "--path", "nowhere"],
        with_files,
    ),
    case(
        "tool run",
        "no-git",
        &["tool", "run", "file-list"],
        without_setup,
    ),
];

fn with_files(environment: &mut TestEnvironment) {
    environment.set_variable("PATH", PATH);
    environment.write("work/notes.txt", "one\ntwo\nthree\n");
    environment.write("work/src/main.rs", "fn main() {}\n");
}
