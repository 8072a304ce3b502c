//! Commands about actions.

use super::{SnapshotCase, case, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "action create",
        "",
        &["action", "create", "--config", "coverage.yaml"],
        with_files,
    ),
    case(
        "action create",
        "taken",
        &["action", "create", "--config", "coverage.yaml"],
        with_actions,
    ),
    case(
        "action create",
        "update",
        &["action", "create", "--config", "coverage.yaml", "--update"],
        with_actions,
    ),
    case(
        "action create",
        "wrong",
        &["action", "create", "--config", "wrong.yaml"],
        with_files,
    ),
    case("action list", "", &["action", "list"], with_actions),
    case("action list", "empty", &["action", "list"], without_setup),
    case(
        "action list",
        "filtered",
        &[
            "action",
            "list",
            "--state",
            "available",
            "--namespace",
            "team",
            "L.NT",
            "--limit",
            "1",
        ],
        with_actions,
    ),
    case(
        "action list",
        "project",
        &["action", "list"],
        with_project_actions,
    ),
    case(
        "action show",
        "",
        &["action", "show", "code-coverage"],
        with_actions,
    ),
    case(
        "action show",
        "project",
        &["action", "show", "local/tidy"],
        with_project_actions,
    ),
    case(
        "action show",
        "shadowed",
        &["action", "show", "team/lint"],
        with_project_actions,
    ),
    case(
        "action show",
        "unknown",
        &["action", "show", "code-covrage"],
        with_actions,
    ),
    case(
        "action archive",
        "",
        &["action", "archive", "team/lint"],
        with_actions,
    ),
    case(
        "action archive",
        "unknown",
        &["action", "archive", "team/lnit"],
        with_actions,
    ),
    case(
        "action validate",
        "",
        &["action", "validate", "coverage.yaml"],
        with_files,
    ),
    case(
        "action archive",
        "project",
        &["action", "archive", "tidy"],
        with_project_actions,
    ),
    case(
        "action validate",
        "wrong",
        &["action", "validate", "wrong.yaml"],
        with_files,
    ),
];

const COVERAGE: &str = "\
# yaml-language-server: $schema=action.schema.json
version: 1
name: local/code-coverage
description: Raise the test coverage of {{ args.folder }}
long_description: |
  Writes tests where there are none.
  Leaves the code alone.
strategy_actor: local/planner
execution_actor: local/coder
review_actor: local/reviewer
definition_of_done: Coverage of {{ args.folder }} is at least {{ args.target }} %
arguments:
  - {name: folder, type: path, required: true, description: What to cover}
  - {name: target, type: integer, default: 90, description: In per cent}
  - {name: style, type: choice, required: true, choices: [unit, whole system]}
  - {name: ticket, type: string, pattern: '[A-Z]+-[0-9]+'}
automation_profile: supervised
invariants: [Change no public interface]
checks: [{run: cargo test, name: tests, timeout: 600}]
budget: {usd: 2.5, wall: 3600}
skills: [local/testing]
";

const INVALID: &str = "\
name: local/code coverage
descripton: A misspelt key
strategy_actor: local/planner
execution_actor: local/coder
definition_of_done: x
arguments: [{name: depth, type: integer, default: three}]
";

pub(crate) fn small_action(name: &str) -> String {
    format!(
        "name: {name}\ndescription: Does little\nstrategy_actor: builtin/direct\n\
         execution_actor: local/coder\ndefinition_of_done: It is done\n"
    )
}

fn with_files(environment: &mut TestEnvironment) {
    environment.write("work/coverage.yaml", COVERAGE);
    environment.write("work/wrong.yaml", INVALID);
}

fn with_actions(environment: &mut TestEnvironment) {
    with_files(environment);
    environment.write(
        "work/lint.yaml",
        small_action("team/lint") + "reusable: false\n",
    );
    environment.write("work/old.yaml", small_action("team/old"));
    for file in ["coverage.yaml", "lint.yaml", "old.yaml"] {
        let create = ["action", "create", "--config", file];
        environment.run(&create).succeeded();
    }
    environment
        .run(&["action", "archive", "team/old"])
        .succeeded();
}

/// A project with two actions in files, one of them also registered, and a broken file.
fn with_project_actions(environment: &mut TestEnvironment) {
    with_actions(environment);
    environment.write("work/.agents/actions/lint.yaml", small_action("team/lint"));
    environment.write("work/.agents/actions/tidy.yml", small_action("tidy"));
    environment.write("work/.agents/actions/broken.yaml", "nmae: x\n");
}
