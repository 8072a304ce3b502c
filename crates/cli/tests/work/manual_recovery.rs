//! Recovery from partial applies and lost sandboxes, warnings about sandboxes, and the retention of
//! applies.

use std::fs;
use std::path::Path;

use cleveragents_cli::bootstrap::ApplyStep;

use crate::event_follower::{is_process_running, wait_until_true};
use crate::kill_at_step::kill_when_reached;
use crate::world::{BASE, TRUSTED, TestWorld};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Kills an apply after it has written everything but the branch. The branch is then moved to a
/// commit that changes the same file.
pub(crate) fn set_up_stuck_apply(world: &TestWorld, plan: &str) {
    let words = ["plan", "apply", plan, "--yes"];
    let folders = ["home", "shop"];
    kill_when_reached(world, &words, &folders, ApplyStep::IndexReplaced);
    let (shop, other) = (world.path("shop"), world.path("other"));
    let add = [
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        other.to_str().unwrap(),
        "HEAD",
    ];
    world.git(&shop, &add);
    world.write("other/a", &BASE.replace('2', "2 theirs"));
    world.git(&other, &["commit", "-q", "-am", "theirs"]);
    world.git(&shop, &["update-ref", "refs/heads/main", "refs/heads/side"]);
    world.git(&shop, &["worktree", "remove", "--force", "../other"]);
}

/// Files of a stopped apply lie in the user's tree: it is not done, and that is said.
#[test]
fn resuming_an_unfinished_apply_says_what_is_left() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    set_up_stuck_apply(&world, &plan);
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    let settle = format!("agents plan apply {plan} --mark-applied");
    for edited in [false, true] {
        if edited {
            world.write("shop/a", "mine\n");
        }
        let run = world.run_json(&["plan", "resume", &plan]).exits(4);
        run.reports_state("apply/errored")
            .prints("the apply is unfinished")
            .prints(&settle);
    }
    let words: Vec<&str> = settle.split(' ').skip(1).collect();
    world.run(&words).succeeded();
    assert_eq!(world.state(&plan), "apply/applied");
}

#[test]
fn a_stuck_apply_is_settled_by_hand() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let settle = ["plan", "apply", &plan, "--mark-applied", "--yes"];
    world
        .run_json(&settle)
        .exits(4)
        .prints("there is nothing to settle");
    set_up_stuck_apply(&world, &plan);
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    for _ in 0..2 {
        // The apply is neither forced nor forgotten, and the hint says what can be done.
        let run = world.apply(&plan).exits(4).reports_state("apply/errored");
        run.prints(&format!("agents plan apply {plan} --mark-applied"));
    }
    world.git(&world.path("shop"), &["checkout", "-q", "-f", "main"]);
    let (files, head) = (world.files("shop"), world.commits("shop"));
    world
        .run_json(&settle)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.files("shop"), files, "nothing is touched");
    assert_eq!(world.commits("shop"), head);
    assert_eq!(world.read("shop/a"), BASE.replace('2', "2 theirs"));
    let settled = world.events_of_kind(&plan, "apply_settled");
    assert_eq!(settled.len(), 1);
    world
        .run_json(&settle)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.events_of_kind(&plan, "apply_settled").len(), 1);
    let both = ["plan", "apply", &plan, "--mark-applied", "--to", "current"];
    world.run_json(&both).exits(2);
}

#[test]
fn apply_records_are_removed_once_unneeded() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    let kept = || {
        let folder = world.path("home/.cleveragents/applies");
        let refs = ["for-each-ref", "refs/cleveragents/apply"];
        let refs = world.git(&world.path("shop"), &refs);
        (count_entries(&folder), refs.lines().count())
    };
    assert_eq!(kept().1, 1);
    let swept = world.json_data(&["sandbox", "gc"]);
    assert_eq!(swept["applies"][0]["what"], "kept", "{swept}");
    assert_eq!(swept["applies"][0]["reason"], "it can still be undone");
    assert_eq!(kept().1, 1);
    // It can be unapplied even though its sandbox is gone.
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    assert_eq!(kept().1, 2);
    let run = world.run(&["sandbox", "gc", "--dry-run"]).succeeded();
    run.prints("data of 2 finished applies would be removed");
    assert_eq!(kept().1, 2);
    let run = world.run(&["sandbox", "gc"]).succeeded();
    run.prints("data of 2 finished applies removed");
    assert_eq!(kept(), (0, 0));
    let swept = world.json_data(&["sandbox", "gc"]);
    assert_eq!(swept["applies"].as_array().unwrap().len(), 0);
    world.git(&world.path("shop"), &["fsck", "--strict"]);
}

/// An applied plan no longer needs its sandbox. If it is unapplied and applied again, it repeats
/// all of its work in a new one: work in the old one does not count.
#[test]
fn a_plan_whose_sandbox_was_collected_can_be_applied_again() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    world.run(&["sandbox", "gc"]).succeeded();
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    let apply = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    apply.prints("the plan's sandbox of it was removed");
    assert_redone_by_rebase(&world, &plan);
}

/// A plan can be reverted at most three times; it must not be lost for that reason.
#[test]
fn a_plan_without_reversions_whose_sandbox_was_deleted_can_be_applied() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    for _ in 0..3 {
        world.run_json(&["plan", "revert", &plan]).succeeded();
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
    }
    delete_sandboxes(&world);
    let rollback = ["plan", "rollback", &plan, "1", "--yes"];
    let rebase = format!("agents plan rebase {plan}");
    world.run_json(&rollback).exits(4).prints(&rebase);
    assert_redone_by_rebase(&world, &plan);
}

#[test]
fn a_failed_plan_without_sandbox_starts_again() {
    let world = TestWorld::new();
    let step = "- {tool: builtin/shell, input: {command: 'test -e allowed'}}\n";
    world.define_worker(&format!("{EDIT}{step}"));
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    delete_sandboxes(&world);
    world.write("shop/allowed", "");
    world.commit("shop", "allowed");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_complete(&world);
}

/// Deletes every sandbox, as a user might.
fn delete_sandboxes(world: &TestWorld) {
    let sandboxes = world.path("home/.cleveragents/sandboxes");
    for folder in fs::read_dir(&sandboxes).unwrap() {
        fs::remove_dir_all(folder.unwrap().path()).unwrap();
    }
}

/// Runs the command that a refused apply hints at; expects the whole change.
fn assert_redone_by_rebase(world: &TestWorld, plan: &str) {
    let rebase = format!("agents plan rebase {plan}");
    world.apply(plan).exits(4).prints(&rebase);
    let rebase = world.run_json(&["plan", "rebase", plan]).exits(5);
    rebase
        .reports_state("execute/queued")
        .prints("agents plan execute");
    world
        .execute(plan)
        .succeeded()
        .reports_state("execute/complete");
    world.apply(plan).succeeded().reports_state("apply/applied");
    assert_complete(world);
    let sandboxes = world.json_data(&["sandbox", "list"]);
    let count = sandboxes["sandboxes"].as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{sandboxes}");
}

fn assert_complete(world: &TestWorld) {
    assert_eq!(world.read("shop/a"), BASE.replace('2', "two"));
    assert_eq!(world.read("shop/made"), "made");
}

fn count_entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_killed_rejection_is_validated_by_the_next_command() {
    let world = TestWorld::new();
    world.define_worker(EDIT);
    world.define_worker_job("checks: [{run: 'test -e made || sleep 3.1536', timeout: 600}]\n");
    for applied_first in [true, false] {
        let plan = world.create_plan(TRUSTED);
        world.execute(&plan).succeeded();
        let words = ["plan", "reject", &plan, "made", "--why", "not wanted"];
        let mut child = world.start(&words);
        wait_until_true("it is validated again", || {
            is_process_running("sleep 3.1536")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if applied_first {
            // Earlier validation results do not count.
            let run = world.apply(&plan).exits(7);
            run.prints("agents plan execute");
            assert_eq!(world.state(&plan), "apply/constrained");
        }
        let run = world.execute(&plan);
        // A plan that an apply stopped is applied by the user only.
        run.exits(if applied_first { 5 } else { 0 });
        assert_eq!(world.events_of_kind(&plan, "change_rejected").len(), 1);
        world
            .apply(&plan)
            .succeeded()
            .reports_state("apply/applied");
        assert!(!world.path("shop/made").exists());
        assert_eq!(world.read("shop/a").lines().nth(1), Some("two"));
        world
            .run_json(&["plan", "unapply", &plan, "--yes"])
            .succeeded();
    }
}

#[test]
fn files_missing_from_the_sandbox_are_reported() {
    let world = TestWorld::new();
    world.write("shop/loose", "mine\n");
    world.write("shop/run.sh", "mine\n");
    world.define_worker(EDIT);
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let run = world.execute(&plan).succeeded();
    let said = "not committed, and so not in the sandbox: run.sh, loose";
    let data = run.data();
    let warnings = &data["sandboxes"][0]["warnings"];
    assert_eq!(warnings[0], said, "{data}");
    assert!(run.stdout.contains("\"level\": \"warn\""), "{run:?}");
    run.prints(&format!("local/shop: {said}"));
    // A plan that includes uncommitted files has nothing to warn about.
    let plan = world.create_plan_for("shop", TRUSTED, &["--base", "worktree"]);
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(
        data["sandboxes"][0]["warnings"].as_array().unwrap().len(),
        0
    );
}
