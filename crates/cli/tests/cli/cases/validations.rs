//! Commands about validations.

use super::project::with_projects;
use super::{SnapshotCase, case, without_setup};
use crate::environment::TestEnvironment;

/// The fixed id of the test's attachment.
const ATTACHMENT_ID: &str = "01JZZZZZZZ0000000000ATTACH";

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "validation add",
        "",
        &["validation", "add", "--config", "tests.yaml"],
        with_files,
    ),
    case(
        "validation add",
        "tool",
        &["validation", "add", "--config", "todo.yaml"],
        with_files,
    ),
    case(
        "validation add",
        "taken",
        &["validation", "add", "--config", "tests.yaml"],
        with_validations,
    ),
    case(
        "validation add",
        "update",
        &["validation", "add", "--config", "tests.yaml", "--update"],
        with_validations,
    ),
    case(
        "validation add",
        "wrong",
        &["validation", "add", "--config", "wrong.yaml"],
        with_files,
    ),
    case(
        "validation list",
        "",
        &["validation", "list"],
        with_attachment,
    ),
    case(
        "validation list",
        "none",
        &["validation", "list"],
        without_setup,
    ),
    case(
        "validation list",
        "filtered",
        &["validation", "list", "--mode", "informational", "TODO"],
        with_attachment,
    ),
    case(
        "validation show",
        "",
        &["validation", "show", "tests"],
        with_attachment,
    ),
    case(
        "validation show",
        "tool",
        &["validation", "show", "no-todo"],
        with_attachment,
    ),
    case(
        "validation show",
        "unknown",
        &["validation", "show", "test"],
        with_attachment,
    ),
    case(
        "validation attach",
        "",
        &["validation", "attach", "local/docs", "no-todo"],
        with_validations,
    ),
    case(
        "validation attach",
        "project",
        &[
            "validation",
            "attach",
            "--project",
            "shop",
            "local/shop",
            "tests",
            "package=cart",
        ],
        with_validations,
    ),
    case(
        "validation attach",
        "twice",
        &[
            "validation",
            "attach",
            "local/shop",
            "tests",
            "package=cart",
        ],
        with_attachment,
    ),
    case(
        "validation attach",
        "argument",
        &["validation", "attach", "local/shop", "tests", "pakage=cart"],
        with_validations,
    ),
    case(
        "validation attach",
        "unknown-resource",
        &["validation", "attach", "local/bank", "no-todo"],
        with_validations,
    ),
    case(
        "validation detach",
        "",
        &["validation", "detach", ATTACHMENT_ID],
        with_attachment,
    ),
    case(
        "validation detach",
        "unknown",
        &["validation", "detach", "0000", "--yes"],
        without_setup,
    ),
    case(
        "validation remove",
        "",
        &["validation", "remove", "no-todo"],
        with_validations,
    ),
    case(
        "validation remove",
        "attached",
        &["validation", "remove", "tests"],
        with_attachment,
    ),
];

pub(crate) const TESTS: &str = "\
name: local/tests
description: The tests pass
mode: required
run: cargo test --package {{ args.package }}
timeout: 900
";

const TODO: &str = "\
name: local/no-todo
description: Nothing is left to do
mode: informational
wraps: builtin/file-search
input: {pattern: TODO, glob: '*.rs'}
transform: output.matches | length == 0
";

const INVALID: &str = "\
name: builtin/wrong
description: Has every kind of mistake
mode: required
run: echo {{ steps.x }}
transform: output
timeout: 100000
timeuot: 3
";

fn with_files(environment: &mut TestEnvironment) {
    environment.write("work/tests.yaml", TESTS);
    environment.write("work/todo.yaml", TODO);
    environment.write("work/wrong.yaml", INVALID);
}

/// Two validations, and the projects with their resources.
pub(crate) fn with_validations(environment: &mut TestEnvironment) {
    with_projects(environment);
    with_files(environment);
    for file in ["tests.yaml", "todo.yaml"] {
        let add = ["validation", "add", "--config", file];
        environment.run(&add).succeeded();
    }
}

/// One of the validations attached, under a fixed id.
fn with_attachment(environment: &mut TestEnvironment) {
    with_validations(environment);
    let attach = [
        "validation",
        "attach",
        "local/shop",
        "tests",
        "package=cart",
    ];
    environment.run(&attach).succeeded();
    let tail: String = ATTACHMENT_ID.chars().rev().collect();
    environment.sql(&format!(
        "UPDATE validation_attachments SET id = '{ATTACHMENT_ID}', tail = '{tail}';"
    ));
}
