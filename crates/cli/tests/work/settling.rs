//! Ways out of what was left half-way, what is told of sandboxes, and what is kept of applies.

use std::fs;
use std::path::Path;

use cleveragents_cli::wiring::ApplyStep;

use crate::dying::{Snapshot, die};
use crate::following::{runs, until};
use crate::world::{ALONE, BASE, World};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Kills an apply when everything is written but the branch, which is then moved by somebody else
/// to a commit that changes the same file.
pub(crate) fn stopped_for_good(world: &World, plan: &str) {
    let words = ["plan", "apply", plan, "--yes"];
    let snapshot = Snapshot::of(world, &["home", "shop"]);
    let steps = die(world, &words, 0).steps;
    let written = steps.iter().position(|it| *it == ApplyStep::IndexReplaced);
    snapshot.put_back();
    assert!(die(world, &words, written.unwrap() + 1).killed);
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

#[test]
fn what_can_neither_go_on_nor_back_is_settled_by_hand() {
    let world = World::new();
    let plan = world.executed(EDIT);
    let settle = ["plan", "apply", &plan, "--as-it-stands", "--yes"];
    world
        .ask(&settle)
        .exits(4)
        .says("there is nothing to settle");
    stopped_for_good(&world, &plan);
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    for _ in 0..2 {
        // It is neither forced nor forgotten, and it is said what can be done.
        let run = world.apply(&plan).exits(4).stands("apply/errored");
        run.says(&format!("agents plan apply {plan} --as-it-stands"));
    }
    world.git(&world.path("shop"), &["checkout", "-q", "-f", "main"]);
    let (files, head) = (world.files("shop"), world.commits("shop"));
    world.ask(&settle).succeeded().stands("apply/applied");
    assert_eq!(world.files("shop"), files, "nothing is touched");
    assert_eq!(world.commits("shop"), head);
    assert_eq!(world.read("shop/a"), BASE.replace('2', "2 theirs"));
    let told = world.told(&plan, "apply_settled");
    assert_eq!(told.len(), 1);
    world.ask(&settle).succeeded().stands("apply/applied");
    assert_eq!(world.told(&plan, "apply_settled").len(), 1);
    let both = ["plan", "apply", &plan, "--as-it-stands", "--to", "current"];
    world.ask(&both).exits(2);
}

#[test]
fn what_is_kept_of_an_apply_goes_when_it_cannot_be_wanted_back() {
    let world = World::new();
    let plan = world.executed(EDIT);
    world.apply(&plan).succeeded();
    let kept = || {
        let folder = world.path("home/.cleveragents/applies");
        let refs = ["for-each-ref", "refs/cleveragents/apply"];
        let refs = world.git(&world.path("shop"), &refs);
        (count(&folder), refs.lines().count())
    };
    assert_eq!(kept().1, 1);
    let swept = world.data(&["sandbox", "gc"]);
    assert_eq!(swept["applies"][0]["what"], "kept", "{swept}");
    assert_eq!(swept["applies"][0]["reason"], "it can be taken back");
    assert_eq!(kept().1, 1);
    // Though its sandbox is gone, it can be taken back.
    world.ask(&["plan", "unapply", &plan, "--yes"]).succeeded();
    assert_eq!(kept().1, 2);
    let run = world.run(&["sandbox", "gc", "--dry-run"]).succeeded();
    run.says("2 finished applies would be forgotten");
    assert_eq!(kept().1, 2);
    let run = world.run(&["sandbox", "gc"]).succeeded();
    run.says("2 finished applies forgotten");
    assert_eq!(kept(), (0, 0));
    let swept = world.data(&["sandbox", "gc"]);
    assert_eq!(swept["applies"].as_array().unwrap().len(), 0);
    world.git(&world.path("shop"), &["fsck", "--strict"]);
}

/// A plan that was applied needs no sandbox any more. Unapplied and wanted again, it does all of its
/// work in a new one: what it did in the old one does not count.
#[test]
fn a_plan_whose_sandbox_was_collected_can_be_applied_again() {
    let world = World::new();
    let plan = world.executed(EDIT);
    world.apply(&plan).succeeded();
    world.run(&["sandbox", "gc"]).succeeded();
    world.ask(&["plan", "unapply", &plan, "--yes"]).succeeded();
    let apply = world.apply(&plan).exits(4).stands("apply/constrained");
    apply.says("the plan's sandbox of it was removed");
    is_done_again_by_rebase(&world, &plan);
}

/// A plan is reverted three times at most, which is no reason to lose it.
#[test]
fn a_plan_without_reversions_whose_sandbox_was_deleted_can_be_applied() {
    let world = World::new();
    let plan = world.executed(EDIT);
    for _ in 0..3 {
        world.ask(&["plan", "revert", &plan]).succeeded();
        world.execute(&plan).succeeded().stands("execute/complete");
    }
    delete_sandboxes(&world);
    let rollback = ["plan", "rollback", &plan, "1", "--yes"];
    let rebase = format!("agents plan rebase {plan}");
    world.ask(&rollback).exits(4).says(&rebase);
    is_done_again_by_rebase(&world, &plan);
}

#[test]
fn a_plan_that_failed_and_whose_sandbox_was_deleted_begins_again() {
    let world = World::new();
    let step = "- {tool: builtin/shell, input: {command: 'test -e allowed'}}\n";
    world.worker(&format!("{EDIT}{step}"));
    world.job("");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1).stands("execute/errored");
    delete_sandboxes(&world);
    world.write("shop/allowed", "");
    world.commit("shop", "allowed");
    world.execute(&plan).succeeded().stands("execute/complete");
    world.apply(&plan).succeeded().stands("apply/applied");
    is_whole(&world);
}

/// Deletes every sandbox as a user might.
fn delete_sandboxes(world: &World) {
    let sandboxes = world.path("home/.cleveragents/sandboxes");
    for folder in fs::read_dir(&sandboxes).unwrap() {
        fs::remove_dir_all(folder.unwrap().path()).unwrap();
    }
}

/// Takes the way that a refused apply names, and expects the whole change.
fn is_done_again_by_rebase(world: &World, plan: &str) {
    let rebase = format!("agents plan rebase {plan}");
    world.apply(plan).exits(4).says(&rebase);
    let rebase = world.ask(&["plan", "rebase", plan]).exits(5);
    rebase.stands("execute/queued").says("agents plan execute");
    world.execute(plan).succeeded().stands("execute/complete");
    world.apply(plan).succeeded().stands("apply/applied");
    is_whole(world);
    let sandboxes = world.data(&["sandbox", "list"]);
    let count = sandboxes["sandboxes"].as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{sandboxes}");
}

fn is_whole(world: &World) {
    assert_eq!(world.read("shop/a"), BASE.replace('2', "two"));
    assert_eq!(world.read("shop/made"), "made");
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_rejection_that_was_killed_before_it_was_validated_is_validated_by_the_next_word() {
    let world = World::new();
    world.worker(EDIT);
    world.job("checks: [{run: 'test -e made || sleep 3.1536', timeout: 600}]\n");
    for applied_first in [true, false] {
        let plan = world.plan(ALONE);
        world.execute(&plan).succeeded();
        let words = ["plan", "reject", &plan, "made", "--why", "not wanted"];
        let mut child = world.start(&words);
        until("it is validated again", || runs("sleep 3.1536"));
        child.kill().unwrap();
        child.wait().unwrap();
        if applied_first {
            // Nothing that was validated before counts.
            let run = world.apply(&plan).exits(7);
            run.says("agents plan execute");
            assert_eq!(world.state(&plan), "apply/constrained");
        }
        world.execute(&plan).succeeded();
        assert_eq!(world.told(&plan, "change_rejected").len(), 1);
        world.apply(&plan).succeeded().stands("apply/applied");
        assert!(!world.path("shop/made").exists());
        assert_eq!(world.read("shop/a").lines().nth(1), Some("two"));
        world.ask(&["plan", "unapply", &plan, "--yes"]).succeeded();
    }
}

#[test]
fn what_is_not_in_a_sandbox_is_told() {
    let world = World::new();
    world.write("shop/loose", "mine\n");
    world.write("shop/run.sh", "mine\n");
    world.worker(EDIT);
    world.job("");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).succeeded();
    let said = "not committed, and so not in the sandbox: run.sh, loose";
    let data = run.data();
    let warnings = &data["sandboxes"][0]["warnings"];
    assert_eq!(warnings[0], said, "{data}");
    assert!(run.stdout.contains("\"level\": \"warn\""), "{run:?}");
    run.says(&format!("local/shop: {said}"));
    // One that brings them along has nothing to warn of.
    let plan = world.plan_of("shop", ALONE, &["--base", "worktree"]);
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(
        data["sandboxes"][0]["warnings"].as_array().unwrap().len(),
        0
    );
}
