//! Commands about invariants.

use super::{SnapshotCase, case, with_store, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "invariant add",
        "",
        &["invariant", "add", "Never push"],
        without_setup,
    ),
    case(
        "invariant add",
        "fixed",
        &[
            "invariant",
            "add",
            "--global",
            "--non-overridable",
            "Never push",
        ],
        without_setup,
    ),
    case(
        "invariant add",
        "actions",
        &[
            "invariant",
            "add",
            "--action",
            "lint",
            "--action",
            "team/tidy",
            "Change no tests",
        ],
        without_setup,
    ),
    case(
        "invariant add",
        "taken",
        &["invariant", "add", "  log   EVERYTHING "],
        with_rules,
    ),
    case(
        "invariant add",
        "unknown-project",
        &["invariant", "add", "--project", "local/none", "x"],
        with_rules,
    ),
    case("invariant list", "", &["invariant", "list"], with_rules),
    case(
        "invariant list",
        "empty",
        &["invariant", "list"],
        without_setup,
    ),
    case(
        "invariant list",
        "project",
        &["invariant", "list", "--project", "shop", "--limit", "1"],
        with_rules,
    ),
    case(
        "invariant list",
        "effective",
        &[
            "invariant",
            "list",
            "--effective",
            "--project",
            "shop",
            "--action",
            "lint",
        ],
        with_rules,
    ),
    case(
        "invariant list",
        "effective-of-no-project",
        &["invariant", "list", "--effective"],
        without_setup,
    ),
    case(
        "invariant remove",
        "",
        &["invariant", "remove", RULE_ID],
        with_fixed_rule_id,
    ),
    case(
        "invariant remove",
        "unknown",
        &["invariant", "remove", "0000"],
        with_rules,
    ),
];

const RULE_ID: &str = "01JZZZZZZZ0000000000ABCDEF";

/// Inserts a project directly into the database.
pub(crate) fn add_project(environment: &TestEnvironment) {
    let id = "01JZZZZZZZ0000000000000000";
    let body = format!(
        r#"{{"id":"{id}","name":"local/shop","description":null,"automation_profile":null,
            "created_at":"2026-01-31T12:00:00Z","updated_at":"2026-01-31T12:00:00Z","version":1}}"#
    );
    environment.sql(&format!(
        "INSERT INTO projects VALUES ('{id}', 'local/shop', '{body}', 1, 0, 0);"
    ));
}

fn with_rules(environment: &mut TestEnvironment) {
    with_store(environment);
    add_project(environment);
    environment.write(
        "work/lint.yaml",
        super::small_action("lint") + "invariants: [Keep the public interface]\n",
    );
    for arguments in [
        &["action", "create", "--config", "lint.yaml"][..],
        &["invariant", "add", "Log everything"],
        &["invariant", "add", "--non-overridable", "Never push"],
        &["invariant", "add", "--project", "shop", "never push"],
        &["invariant", "add", "-p", "shop", "No new dependencies"],
        &[
            "invariant",
            "add",
            "--action",
            "lint",
            "no  new dependencies",
        ],
        &["invariant", "add", "--action", "other", "Hurry up"],
    ] {
        environment.run(arguments).succeeded();
    }
}

fn with_fixed_rule_id(environment: &mut TestEnvironment) {
    with_store(environment);
    let body = format!(
        r#"{{"id":"{RULE_ID}","text":"Never push","scope":"global","non_overridable":true,
            "created_at":"2026-01-31T12:00:00Z"}}"#
    );
    let tail: String = RULE_ID.chars().rev().collect();
    environment.sql(&format!(
        "INSERT INTO invariants VALUES ('{RULE_ID}', '{tail}', 'global', '', 'x', '{body}', 0);"
    ));
}
