//! Commands that work on plans.

use super::{Case, case};
use crate::environment::TestEnvironment;
use crate::executed::{PLAN, execute, made, with_executed, with_plan};

pub(super) const CASES: &[Case] = &[
    case("plan execute", "", &["plan", "execute", PLAN], with_plan),
    case(
        "plan execute",
        "again",
        &["plan", "execute", PLAN],
        with_strategy,
    ),
    case(
        "plan execute",
        "nothing-outstanding",
        &["plan", "execute", PLAN],
        with_executed,
    ),
    case(
        "plan execute",
        "detach",
        &["plan", "execute", PLAN, "--detach"],
        with_strategy,
    ),
    case(
        "plan apply",
        "",
        &["plan", "apply", PLAN, "--yes"],
        with_executed,
    ),
    case(
        "plan apply",
        "too-early",
        &["plan", "apply", PLAN, "--yes"],
        with_plan,
    ),
    case(
        "plan apply",
        "in-the-way",
        &["plan", "apply", PLAN, "--yes"],
        with_edited_file,
    ),
    case(
        "plan apply",
        "twice",
        &["plan", "apply", PLAN, "--yes"],
        with_applied,
    ),
    case(
        "plan apply",
        "nowhere",
        &["plan", "apply", PLAN, "--to", "moon"],
        with_executed,
    ),
    case(
        "plan apply",
        "no-branch",
        &["plan", "apply", PLAN, "--to", "branch"],
        with_executed,
    ),
    case(
        "plan apply",
        "target-moved",
        &["plan", "apply", PLAN, "--yes"],
        with_same_line_committed,
    ),
    case(
        "plan rebase",
        "",
        &["plan", "rebase", PLAN],
        with_other_line_committed,
    ),
    case(
        "plan rebase",
        "nothing-moved",
        &["plan", "rebase", PLAN],
        with_executed,
    ),
    case(
        "plan rebase",
        "conflict",
        &["plan", "rebase", PLAN],
        with_same_line_committed,
    ),
    case(
        "plan rebase",
        "in-progress",
        &["plan", "rebase", PLAN],
        with_unfinished_merge,
    ),
    case(
        "plan rebase",
        "applied",
        &["plan", "rebase", PLAN],
        with_applied,
    ),
    case(
        "plan unapply",
        "",
        &["plan", "unapply", PLAN, "--yes"],
        with_applied,
    ),
    case(
        "plan unapply",
        "never-applied",
        &["plan", "unapply", PLAN, "--yes"],
        with_executed,
    ),
    case(
        "plan checkpoints",
        "",
        &["plan", "checkpoints", PLAN],
        with_executed,
    ),
    case(
        "plan checkpoints",
        "none",
        &["plan", "checkpoints", PLAN],
        with_plan,
    ),
    case(
        "plan rollback",
        "",
        &["plan", "rollback", PLAN, "2", "--yes"],
        with_executed,
    ),
    case(
        "plan rollback",
        "no-checkpoint",
        &["plan", "rollback", PLAN, "99", "--yes"],
        with_executed,
    ),
    case(
        "plan rollback",
        "no-number",
        &["plan", "rollback", PLAN, "x", "--yes"],
        with_executed,
    ),
    case(
        "plan status",
        "executed",
        &["plan", "status", PLAN],
        with_executed,
    ),
];

/// The plan with its strategy, which waits to be approved.
fn with_strategy(environment: &mut TestEnvironment) {
    let plan = made(environment);
    let run = environment.run(&["plan", "execute", &plan]);
    assert_eq!(run.code, Some(5), "{run:?}");
}

fn with_applied(environment: &mut TestEnvironment) {
    let plan = execute(environment);
    environment
        .run(&["plan", "apply", &plan, "--yes"])
        .succeeded();
}

/// The target has a commit that the result can be merged with.
fn with_other_line_committed(environment: &mut TestEnvironment) {
    with_executed(environment);
    commit_line(environment, "line 10$", "tenth line");
}

/// The target has a commit that changes a line of the plan's.
fn with_same_line_committed(environment: &mut TestEnvironment) {
    with_executed(environment);
    commit_line(environment, "line 3$", "my third line");
}

fn with_unfinished_merge(environment: &mut TestEnvironment) {
    with_other_line_committed(environment);
    let merge = "cp shop/.git/refs/heads/main shop/.git/MERGE_HEAD";
    crate::executed::script(environment, merge);
}

fn commit_line(environment: &TestEnvironment, old: &str, new: &str) {
    let commit = format!(
        "export GIT_AUTHOR_DATE=@1700000001+0000 GIT_COMMITTER_DATE=@1700000001+0000
         cd shop && sed -i 's/^{old}/{new}/' cart.txt && git commit -q -a -m Mine"
    );
    crate::executed::script(environment, &commit);
}

/// A file that the plan changed has changes of the user's.
fn with_edited_file(environment: &mut TestEnvironment) {
    with_executed(environment);
    crate::executed::script(environment, "echo mine >> shop/cart.txt");
}
