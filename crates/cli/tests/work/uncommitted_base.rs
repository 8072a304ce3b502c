//! Plans that begin with uncommitted edits (`--base worktree`) apply to the files they came from.

use std::fs;

use crate::world::{BASE, TRUSTED, TestWorld};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '8', new: eight}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Executes a plan on a tree with an edit of the user.
fn execute_on_edits(world: &TestWorld, steps: &str) -> String {
    world.write("shop/a", &BASE.replace('2', "mine"));
    world.define_worker(steps);
    world.define_worker_job("");
    let plan = world.create_plan_for("shop", TRUSTED, &["--base", "worktree"]);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    plan
}

#[test]
fn the_commit_holds_the_plans_change_and_the_edits_stay_uncommitted() {
    let world = TestWorld::new();
    let plan = execute_on_edits(&world, EDIT);
    world.write("shop/dir/b", "also mine\n");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let shop = world.path("shop");
    assert_eq!(world.commits("shop"), 2);
    let committed = world.git(&shop, &["show", "HEAD:a"]);
    assert_eq!(committed, BASE.replace('8', "eight"));
    let both = BASE.replace('2', "mine").replace('8', "eight");
    assert_eq!(world.read("shop/a"), both);
    assert_eq!(world.git(&shop, &["show", ":a"]), committed);
    assert_eq!(world.git_status("shop"), " M a\n M dir/b\n");
    assert_eq!(world.read("shop/dir/b"), "also mine\n");
    // Undone once the edits are committed.
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .exits(4);
    assert_eq!(world.read("shop/a"), both);
    world.commit("shop", "mine");
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    assert_eq!(world.read("shop/a"), BASE.replace('2', "mine"));
}

#[test]
fn a_file_that_was_edited_again_blocks_the_apply() {
    let world = TestWorld::new();
    let plan = execute_on_edits(&world, EDIT);
    for now in [BASE.replace('2', "again"), BASE.replace('5', "other")] {
        world.write("shop/a", &now);
        let run = world.apply(&plan).exits(4);
        assert_eq!(run.data()["conflicts"][0]["path"], "a", "{run:?}");
        assert_eq!(world.read("shop/a"), now);
        assert!(!world.path("shop/made").exists());
        assert_eq!(world.commits("shop"), 1);
    }
    // Edits that the user has undone stay undone.
    world.write("shop/a", BASE);
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/a"), BASE.replace('8', "eight"));
    assert_eq!(world.git_status("shop"), "");
}

#[test]
fn overlapping_changes_are_written_into_the_files() {
    let world = TestWorld::new();
    let steps = "- {tool: builtin/file-edit, input: {path: a, old: mine, new: ours}}\n\
                 - {tool: builtin/file-delete, input: {path: found}}\n";
    world.write("shop/found", "not tracked\n");
    let plan = execute_on_edits(&world, steps);
    let run = world.apply(&plan).exits(4);
    let hint = format!("agents plan apply {plan} --to worktree");
    assert!(run.stdout.contains(&hint), "{run:?}");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "mine"));
    world
        .run_json(&["plan", "apply", &plan, "--yes", "--to", "worktree"])
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "ours"));
    assert!(!world.path("shop/found").exists());
    assert_eq!(world.commits("shop"), 1);
    assert_eq!(world.git_status("shop"), " M a\n");
    // And back, with the edits.
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    assert_eq!(world.read("shop/a"), BASE.replace('2', "mine"));
    assert_eq!(world.read("shop/found"), "not tracked\n");
}

#[test]
fn a_staged_edit_is_not_committed() {
    let world = TestWorld::new();
    let plan = execute_on_edits(&world, EDIT);
    world.git(&world.path("shop"), &["add", "a"]);
    let run = world.apply(&plan).exits(4);
    assert_eq!(run.data()["conflicts"][0]["path"], "a", "{run:?}");
    let hint = format!("agents plan apply {plan} --to worktree");
    assert!(run.stdout.contains(&hint), "{run:?}");
    world
        .run_json(&["plan", "apply", &plan, "--yes", "--to", "worktree"])
        .succeeded();
    let both = BASE.replace('2', "mine").replace('8', "eight");
    assert_eq!(fs::read_to_string(world.path("shop/a")).unwrap(), both);
}
