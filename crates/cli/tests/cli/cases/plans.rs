//! Commands about plans.

use super::{SnapshotCase, case};
use crate::decision_fixture;
use crate::environment::TestEnvironment;
use crate::plan_fixture::{ACTION, register_action};

/// The fixture's plan, by the end of its id.
const PLAN: &str = "00002001";

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "plan use",
        "",
        &[
            "plan",
            "use",
            "local/lint",
            "local/shop",
            "--arg",
            "level=strict",
            "--invariant",
            "No new dependencies",
            "--automation-profile",
            "trusted",
        ],
        with_action,
    ),
    case(
        "plan use",
        "file",
        &[
            "plan", "use", "lint", "shop", "--base", "worktree", "--trust",
        ],
        with_file,
    ),
    case(
        "plan use",
        "untrusted",
        &["plan", "use", "lint", "shop"],
        with_file,
    ),
    case(
        "plan use",
        "misspelt",
        &["plan", "use", "lnit", "shop"],
        with_action,
    ),
    case(
        "plan use",
        "argument",
        &["plan", "use", "lint", "shop", "--arg", "levle=strict"],
        with_action,
    ),
    case(
        "plan use",
        "no-project",
        &["plan", "use", "lint", "bank"],
        with_action,
    ),
    case(
        "plan use",
        "no-profile",
        &[
            "plan",
            "use",
            "lint",
            "shop",
            "--automation-profile",
            "bold",
        ],
        with_action,
    ),
    case("plan list", "", &["plan", "list"], with_plans),
    case(
        "plan list",
        "limited",
        &["plan", "list", "--limit", "1", "LINT"],
        with_plans,
    ),
    case(
        "plan list",
        "none",
        &["plan", "list", "--state", "applied"],
        with_plans,
    ),
    case("plan status", "", &["plan", "status", PLAN], with_decisions),
    case(
        "plan status",
        "errored",
        &["plan", "status", "local/lint-00002001"],
        with_failed_plan,
    ),
    case(
        "plan status",
        "unknown",
        &["plan", "status", "zzzzzzzz"],
        with_decisions,
    ),
    case("status", "", &["status", PLAN], with_decisions),
    case("status", "no-plan", &["status"], with_decisions),
    case("log", "", &["log", PLAN, "--limit", "5"], with_decisions),
    case(
        "plan cancel",
        "",
        &["plan", "cancel", PLAN, "--reason", "wrong branch"],
        with_decisions,
    ),
    case(
        "plan cancel",
        "again",
        &["plan", "cancel", PLAN],
        with_cancelled_plan,
    ),
    case(
        "plan revert",
        "",
        &["plan", "revert", PLAN, "--reason", "keep the tests"],
        with_failed_plan,
    ),
    case(
        "plan revert",
        "elsewhere",
        &["plan", "revert", PLAN, "--to-phase", "execute"],
        with_failed_plan,
    ),
    case(
        "plan prompt",
        "",
        &["plan", "prompt", PLAN, "Leave the prices alone"],
        with_decisions,
    ),
    case(
        "plan prompt",
        "final",
        &["plan", "prompt", PLAN, "Leave the prices alone"],
        with_cancelled_plan,
    ),
    case(
        "plan errors",
        "",
        &["plan", "errors", PLAN],
        with_failed_plan,
    ),
    case(
        "plan errors",
        "none",
        &["plan", "errors", PLAN],
        with_decisions,
    ),
    case(
        "plan log",
        "",
        &["plan", "log", PLAN, "--limit", "5"],
        with_decisions,
    ),
    case(
        "plan log",
        "beyond",
        &["plan", "log", PLAN, "--from-seq", "1000"],
        with_decisions,
    ),
    case("plan verify", "", &["plan", "verify", PLAN], with_decisions),
    case(
        "plan verify",
        "unexpected",
        &["plan", "verify", PLAN, "--expect", "00ff"],
        with_decisions,
    ),
    case(
        "plan delete",
        "",
        &["plan", "delete", PLAN, "--yes"],
        with_cancelled_plan,
    ),
    case(
        "plan delete",
        "unconfirmed",
        &["plan", "delete", PLAN],
        with_cancelled_plan,
    ),
    case(
        "plan delete",
        "refused",
        &["plan", "delete", PLAN],
        with_decisions,
    ),
    case(
        "plan purge",
        "",
        &[
            "plan",
            "purge",
            PLAN,
            "--from-seq",
            "2",
            "--reason",
            "a name",
        ],
        with_decisions,
    ),
    case(
        "plan purge",
        "again",
        &["plan", "purge", PLAN],
        with_purged_events,
    ),
];

fn with_action(environment: &mut TestEnvironment) {
    register_action(environment);
    environment.run(&["project", "create", "shop"]).succeeded();
}

/// The action is in a file of the project and not registered.
fn with_file(environment: &mut TestEnvironment) {
    environment.write("work/.agents/actions/lint.yaml", ACTION);
    let create = ["project", "create", "shop", "--path", "."];
    environment.run(&create).succeeded();
}

fn with_decisions(environment: &mut TestEnvironment) {
    decision_fixture::create(environment);
}

fn with_failed_plan(environment: &mut TestEnvironment) {
    decision_fixture::create_failed(environment);
}

/// The fixture's plan and a newer, cancelled one.
fn with_plans(environment: &mut TestEnvironment) {
    with_decisions(environment);
    let used = environment.run(&["plan", "use", "lint", "shop", "--format", "json"]);
    let id = used.succeeded().json()["data"]["plan_id"].clone();
    let cancel = ["plan", "cancel", id.as_str().unwrap()];
    environment.run(&cancel).succeeded();
}

fn with_cancelled_plan(environment: &mut TestEnvironment) {
    with_decisions(environment);
    environment.run(&["plan", "cancel", PLAN]).succeeded();
}

fn with_purged_events(environment: &mut TestEnvironment) {
    with_decisions(environment);
    environment.run(&["plan", "purge", PLAN]).succeeded();
}
