//! Commands about sandboxes.

use super::{Case, case, with_nothing};
use crate::environment::{PATH, TestEnvironment};
use crate::executed::{PLAN, SANDBOX, execute, with_executed};

pub(super) const CASES: &[Case] = &[
    case("sandbox list", "", &["sandbox", "list"], with_executed),
    case("sandbox list", "none", &["sandbox", "list"], with_git),
    case(
        "sandbox list",
        "filtered",
        &["sandbox", "list", "--state", "active", "--plan", PLAN],
        with_executed,
    ),
    case("sandbox list", "no-git", &["sandbox", "list"], with_nothing),
    case(
        "sandbox show",
        "",
        &["sandbox", "show", SANDBOX],
        with_executed,
    ),
    case(
        "sandbox show",
        "unknown",
        &["sandbox", "show", "0000"],
        with_git,
    ),
    case("sandbox gc", "", &["sandbox", "gc"], with_cancelled),
    case(
        "sandbox gc",
        "dry-run",
        &["sandbox", "gc", "--dry-run"],
        with_cancelled,
    ),
    case("sandbox gc", "kept", &["sandbox", "gc"], with_executed),
];

fn with_git(environment: &mut TestEnvironment) {
    environment.set_variable("PATH", PATH);
}

fn with_cancelled(environment: &mut TestEnvironment) {
    let plan = execute(environment);
    environment.run(&["plan", "cancel", &plan]).succeeded();
}
