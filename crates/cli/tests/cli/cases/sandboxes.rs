//! Commands about sandboxes.

use super::{SnapshotCase, case, without_setup};
use crate::environment::{PATH, TestEnvironment};
use crate::executed_plan::{
    PLAN_PLACEHOLDER, SANDBOX_PLACEHOLDER, create_executed_plan, with_executed_plan,
};

pub(super) const CASES: &[SnapshotCase] = &[
    case("sandbox list", "", &["sandbox", "list"], with_executed_plan),
    case("sandbox list", "none", &["sandbox", "list"], with_git),
    case(
        "sandbox list",
        "filtered",
        &[
            "sandbox",
            "list",
            "--state",
            "active",
            "--plan",
            PLAN_PLACEHOLDER,
        ],
        with_executed_plan,
    ),
    case(
        "sandbox list",
        "no-git",
        &["sandbox", "list"],
        without_setup,
    ),
    case(
        "sandbox show",
        "",
        &["sandbox", "show", SANDBOX_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "sandbox show",
        "unknown",
        &["sandbox", "show", "0000"],
        with_git,
    ),
    case("sandbox gc", "", &["sandbox", "gc"], with_cancelled_plan),
    case(
        "sandbox gc",
        "dry-run",
        &["sandbox", "gc", "--dry-run"],
        with_cancelled_plan,
    ),
    case("sandbox gc", "kept", &["sandbox", "gc"], with_executed_plan),
];

fn with_git(environment: &mut TestEnvironment) {
    environment.set_variable("PATH", PATH);
}

fn with_cancelled_plan(environment: &mut TestEnvironment) {
    let plan = create_executed_plan(environment);
    environment.run(&["plan", "cancel", &plan]).succeeded();
}
