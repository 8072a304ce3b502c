//! Commands that execute and apply plans.

use super::{SnapshotCase, case};
use crate::environment::TestEnvironment;
use crate::executed_plan::{
    PLAN_PLACEHOLDER, create_executed_plan, create_plan, with_executed_plan, with_plan,
};

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "plan execute",
        "",
        &["plan", "execute", PLAN_PLACEHOLDER],
        with_plan,
    ),
    case(
        "plan execute",
        "again",
        &["plan", "execute", PLAN_PLACEHOLDER],
        with_strategy,
    ),
    case(
        "plan execute",
        "nothing-to-run",
        &["plan", "execute", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "plan execute",
        "detach",
        &["plan", "execute", PLAN_PLACEHOLDER, "--detach"],
        with_strategy,
    ),
    case(
        "plan apply",
        "",
        &["plan", "apply", PLAN_PLACEHOLDER, "--yes"],
        with_executed_plan,
    ),
    case(
        "apply",
        "",
        &["apply", PLAN_PLACEHOLDER, "--yes"],
        with_executed_plan,
    ),
    case(
        "blame",
        "",
        &["blame", "shop/cart.txt", "-L", "2,4"],
        with_applied_plan,
    ),
    case(
        "blame",
        "no-file",
        &["blame", "shop/crat.txt"],
        with_applied_plan,
    ),
    case(
        "verify-commit",
        "",
        &["verify-commit", "HEAD", "--path", "shop"],
        with_applied_plan,
    ),
    case(
        "verify-commit",
        "other",
        &["verify-commit", "HEAD~1", "--path", "shop"],
        with_applied_plan,
    ),
    case(
        "plan apply",
        "too-early",
        &["plan", "apply", PLAN_PLACEHOLDER, "--yes"],
        with_plan,
    ),
    case(
        "plan apply",
        "in-the-way",
        &["plan", "apply", PLAN_PLACEHOLDER, "--yes"],
        with_edited_file,
    ),
    case(
        "plan apply",
        "twice",
        &["plan", "apply", PLAN_PLACEHOLDER, "--yes"],
        with_applied_plan,
    ),
    case(
        "plan apply",
        "nowhere",
        &["plan", "apply", PLAN_PLACEHOLDER, "--to", "moon"],
        with_executed_plan,
    ),
    case(
        "plan apply",
        "no-branch",
        &["plan", "apply", PLAN_PLACEHOLDER, "--to", "branch"],
        with_executed_plan,
    ),
    case(
        "plan apply",
        "target-moved",
        &["plan", "apply", PLAN_PLACEHOLDER, "--yes"],
        with_same_line_committed,
    ),
    case(
        "plan rebase",
        "",
        &["plan", "rebase", PLAN_PLACEHOLDER],
        with_other_line_committed,
    ),
    case(
        "plan rebase",
        "nothing-moved",
        &["plan", "rebase", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "plan rebase",
        "conflict",
        &["plan", "rebase", PLAN_PLACEHOLDER],
        with_same_line_committed,
    ),
    case(
        "plan rebase",
        "in-progress",
        &["plan", "rebase", PLAN_PLACEHOLDER],
        with_unfinished_merge,
    ),
    case(
        "plan rebase",
        "applied",
        &["plan", "rebase", PLAN_PLACEHOLDER],
        with_applied_plan,
    ),
    case(
        "plan unapply",
        "",
        &["plan", "unapply", PLAN_PLACEHOLDER, "--yes"],
        with_applied_plan,
    ),
    case(
        "undo",
        "",
        &["undo", PLAN_PLACEHOLDER, "--yes"],
        with_applied_plan,
    ),
    case(
        "plan unapply",
        "never-applied",
        &["plan", "unapply", PLAN_PLACEHOLDER, "--yes"],
        with_executed_plan,
    ),
    case(
        "plan checkpoints",
        "",
        &["plan", "checkpoints", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "plan checkpoints",
        "none",
        &["plan", "checkpoints", PLAN_PLACEHOLDER],
        with_plan,
    ),
    case(
        "plan rollback",
        "",
        &["plan", "rollback", PLAN_PLACEHOLDER, "2", "--yes"],
        with_executed_plan,
    ),
    case(
        "plan rollback",
        "no-checkpoint",
        &["plan", "rollback", PLAN_PLACEHOLDER, "99", "--yes"],
        with_executed_plan,
    ),
    case(
        "plan rollback",
        "no-number",
        &["plan", "rollback", PLAN_PLACEHOLDER, "x", "--yes"],
        with_executed_plan,
    ),
    case(
        "plan status",
        "executed",
        &["plan", "status", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
];

/// A plan whose strategy waits for approval.
fn with_strategy(environment: &mut TestEnvironment) {
    let plan = create_plan(environment);
    let run = environment.run(&["plan", "execute", &plan]);
    assert_eq!(run.code, Some(5), "{run:?}");
}

fn with_applied_plan(environment: &mut TestEnvironment) {
    let plan = create_executed_plan(environment);
    environment
        .run(&["plan", "apply", &plan, "--yes"])
        .succeeded();
}

/// The target has a new commit that merges cleanly with the result.
fn with_other_line_committed(environment: &mut TestEnvironment) {
    with_executed_plan(environment);
    commit_line(environment, "line 10$", "tenth line");
}

/// The target has a new commit that changes the same line as the plan.
fn with_same_line_committed(environment: &mut TestEnvironment) {
    with_executed_plan(environment);
    commit_line(environment, "line 3$", "my third line");
}

fn with_unfinished_merge(environment: &mut TestEnvironment) {
    with_other_line_committed(environment);
    let merge = "cp shop/.git/refs/heads/main shop/.git/MERGE_HEAD";
    crate::executed_plan::run_script(environment, merge);
}

fn commit_line(environment: &TestEnvironment, old: &str, new: &str) {
    let commit = format!(
        "export GIT_AUTHOR_DATE=@1700000001+0000 GIT_COMMITTER_DATE=@1700000001+0000
         cd shop && sed -i 's/^{old}/{new}/' cart.txt && git commit -q -a -m Mine"
    );
    crate::executed_plan::run_script(environment, &commit);
}

/// The user has edited a file that the plan changed.
fn with_edited_file(environment: &mut TestEnvironment) {
    with_executed_plan(environment);
    crate::executed_plan::run_script(environment, "echo mine >> shop/cart.txt");
}
