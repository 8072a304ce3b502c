//! Resolving an apply that a conflicting change stopped after its decision, and plans whose apply
//! was aborted or unapplied.

use cleveragents_cli::bootstrap::ApplyStep;
use serde_json::Value;

use crate::kill_at_step::{WorldSnapshot, kill_at_step, kill_when_reached};
use crate::manual_recovery::set_up_stuck_apply;
use crate::world::{BASE, TRUSTED, TestWorld};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Kills an apply when it reaches this step for the first time.
fn kill_apply_at(world: &TestWorld, plan: &str, folders: &[&str], step: ApplyStep) {
    let words = ["plan", "apply", plan, "--yes"];
    kill_when_reached(world, &words, folders, step);
}

/// Sets up a decided apply of which nothing was written before the user changed the same line.
fn set_up_lost_race(world: &TestWorld) -> String {
    let plan = world.create_executed_plan(EDIT);
    kill_apply_at(world, &plan, &["home", "shop"], ApplyStep::Started);
    let _ = std::fs::remove_file(world.path("shop/.git/index.lock"));
    world.write("shop/a", &BASE.replace('2', "theirs"));
    world.commit("shop", "theirs");
    world.run(&["init"]).succeeded();
    plan
}

/// Returns the names of our temporary files in the repository.
fn temporary_files(world: &TestWorld) -> Vec<String> {
    let files = world.files("shop").into_keys();
    files.filter(|it| it.contains(".agents-")).collect()
}

#[test]
fn drafts_go_although_the_user_unlocked_the_index() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_apply_at(&world, &plan, &["home", "shop"], ApplyStep::PathDrafted);
    assert_ne!(temporary_files(&world), [""; 0]);
    std::fs::remove_file(world.path("shop/.git/index.lock")).unwrap();
    world.run(&["init"]).succeeded();
    assert_eq!(temporary_files(&world), [""; 0]);
    assert_eq!(world.read("shop/a"), BASE);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
}

#[test]
fn a_plan_that_lost_a_race_allows_every_command() {
    let world = TestWorld::new();
    let plan = set_up_lost_race(&world);
    assert_eq!(world.state(&plan), "apply/constrained");
    let errors = world.json_data(&["plan", "errors", &plan]);
    assert_eq!(errors["errors"][0]["category"], "target_moved", "{errors}");
    let hints = errors["errors"][0]["recovery_hints"].to_string();
    assert!(
        hints.contains(&format!("agents plan apply {plan}")),
        "{hints}"
    );
    assert!(
        hints.contains(&format!("agents plan cancel {plan}")),
        "{hints}"
    );
    // Nothing was applied, and the command does not claim otherwise. The former name of
    // `--mark-applied` still works.
    let settle = ["plan", "apply", &plan, "--as-it-stands", "--yes"];
    world
        .run_json(&settle)
        .exits(4)
        .reports_state("apply/constrained");
    let run = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    assert_eq!(run.data()["conflicts"][0]["path"], "a");
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    for (words, state) in [
        (&["plan", "cancel", &plan][..], "apply/cancelled"),
        (&["plan", "revert", &plan], "strategize/queued"),
        (
            &["plan", "reject", &plan, "a", "--why", "theirs is better"],
            "apply/constrained",
        ),
        (&["plan", "rollback", &plan, "1", "--yes"], "execute/queued"),
    ] {
        world.run_json(words).succeeded();
        assert_eq!(world.state(&plan), state, "{words:?}");
        assert_eq!(world.read("shop/a"), BASE.replace('2', "theirs"));
        assert_eq!(world.git_status("shop"), "");
        snapshot.restore();
    }
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    world
        .run_json(&["plan", "delete", &plan, "--yes"])
        .succeeded();
}

#[test]
fn a_stopped_apply_is_aborted_before_the_plan_is_cancelled() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    set_up_stuck_apply(&world, &plan);
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    // The user's edit of a written file is kept and reported.
    world.write("shop/a", "mine\n");
    let run = world
        .run_json(&["plan", "cancel", &plan])
        .exits(4)
        .reports_state("apply/errored");
    assert_eq!(run.data()["conflicts"][0]["path"], "a");
    assert_eq!(world.read("shop/a"), "mine\n");
    // Once the file matches the commit again, the abort leaves nothing of the plan.
    world.git(
        &world.path("shop"),
        &["checkout", "-q", "-f", "HEAD", "--", "a"],
    );
    world
        .run_json(&["plan", "cancel", &plan])
        .succeeded()
        .reports_state("apply/cancelled");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "2 theirs"));
    for (words, state) in [
        (&["plan", "cancel", &plan][..], "apply/cancelled"),
        (&["plan", "revert", &plan], "strategize/queued"),
    ] {
        snapshot.restore();
        world.run_json(words).succeeded().reports_state(state);
        assert_eq!(world.read("shop/a"), BASE, "as before the apply");
        assert!(!world.path("shop/made").exists());
        let staged = world.git(&world.path("shop"), &["show", ":a"]);
        assert_eq!(staged, BASE);
        assert!(!world.path("shop/.git/index.lock").exists());
        world.git(&world.path("shop"), &["fsck", "--strict"]);
    }
}

/// If a process dies during an apply, the next command finishes it. A command that abandons the
/// apply aborts it instead.
#[test]
fn an_interrupted_apply_is_aborted_by_cancelling_commands() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_apply_at(&world, &plan, &["home", "shop"], ApplyStep::IndexReplaced);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    for (words, state) in [
        (&["plan", "cancel", &plan][..], "apply/cancelled"),
        (&["plan", "revert", &plan], "strategize/queued"),
        (
            &["plan", "reject", &plan, "a", "--why", "not wanted"],
            "apply/constrained",
        ),
        (&["plan", "rollback", &plan, "1", "--yes"], "execute/queued"),
    ] {
        snapshot.restore();
        world.run_json(words).succeeded();
        assert_eq!(world.state(&plan), state, "{words:?}");
        assert_eq!(world.read("shop/a"), BASE, "{words:?}");
        assert!(!world.path("shop/made").exists());
        assert_eq!(world.commits("shop"), 1);
        assert_eq!(world.git_status("shop"), "");
    }
    let tree = world.json_data(&["plan", "tree", &plan]);
    let decision = tree["nodes"][0]["id"].as_str().unwrap();
    let correct = ["plan", "correct", decision, "--mode", "append", "-g", "no"];
    snapshot.restore();
    // A dry run leaves the apply as it is.
    let dry_run = world.run_json(&[&correct[..], &["--dry-run"]].concat());
    assert_eq!(dry_run.succeeded().data()["plan"]["state"], "processing");
    assert_eq!(world.state(&plan), "apply/processing");
    world.run_json(&correct).succeeded();
    assert_eq!(world.state(&plan), "strategize/queued");
    assert_eq!(world.read("shop/a"), BASE);
    assert_eq!(world.git_status("shop"), "");
    // An unrelated command finishes it.
    snapshot.restore();
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/applied");
    assert_eq!(world.commits("shop"), 2);
}

/// The command after an interrupted apply says once that it was finished, whether it succeeds or
/// fails.
#[test]
fn a_finished_apply_is_reported_once() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_apply_at(&world, &plan, &["home", "shop"], ApplyStep::IndexReplaced);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    let finished = "an interrupted apply was finished";
    let shop = world.path("shop").display().to_string();
    for (words, code) in [
        (&["project", "delete", "nothing", "--yes"][..], 3),
        (&["sandbox", "gc"], 0),
        (&["plan", "resume", &plan], 0),
        // The text that the job replaces is gone then.
        (&["run", "local/job", "--path", &shop, "--yes"], 1),
    ] {
        snapshot.restore();
        let run = world.run(words).exits(code);
        assert_eq!(run.stderr.matches(finished).count(), 1, "{run:?}");
        assert_eq!(world.state(&plan), "apply/applied", "{words:?}");
    }
    snapshot.restore();
    let run = world.run_json(&["sandbox", "gc"]).succeeded();
    let reply: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(reply["messages"][0]["level"], "warn", "{reply}");
    let text = reply["messages"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(finished), "{reply}");
    assert!(!run.stderr.contains(finished), "{run:?}");
}

#[test]
fn a_dry_run_finishes_no_apply() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_apply_at(&world, &plan, &["home", "shop"], ApplyStep::IndexReplaced);
    let commits = world.commits("shop");
    for words in [&["gc", "--dry-run"][..], &["sandbox", "gc", "--dry-run"]] {
        let run = world.run(words).succeeded();
        assert!(run.stderr.contains("an apply was interrupted"), "{run:?}");
        assert_eq!(world.state(&plan), "apply/processing", "{words:?}");
    }
    let preview = world.json_data(&["plan", "resume", &plan, "--dry-run"]);
    assert_eq!(preview["outlook"]["next"], "apply_approved", "{preview}");
    assert_eq!(world.commits("shop"), commits);
}

/// A plan with two repositories, killed after the first was done. The second then got a commit that
/// changes the same line.
fn set_up_half_applied() -> (TestWorld, String) {
    let world = TestWorld::empty();
    let names = ["docs", "lib"];
    for name in names {
        world.create_repository(name);
    }
    world.create_project("shop", &names);
    let steps = names.map(|name| {
        format!(
            "- {{tool: builtin/file-edit, resource: local/{name}, \
             input: {{path: a, old: '2', new: two}}}}\n"
        )
    });
    let plan = world.create_executed_plan(&steps.concat());
    kill_apply_at(
        &world,
        &plan,
        &["home", "docs", "lib"],
        ApplyStep::DoneRecorded,
    );
    // Left by the killed process: every target is locked before the first is changed.
    std::fs::remove_file(world.path("lib/.git/index.lock")).unwrap();
    world.write("lib/a", &BASE.replace('2', "theirs"));
    world.commit("lib", "theirs");
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    assert_eq!(world.read("docs/a"), BASE.replace('2', "two"));
    (world, plan)
}

#[test]
fn a_half_done_apply_can_be_finished_or_aborted() {
    let (world, plan) = set_up_half_applied();
    let snapshot = WorldSnapshot::capture(&world, &["home", "docs", "lib"]);
    // Finishing: rebased onto the moved target, once the merge has no conflict.
    world.apply(&plan).exits(4).reports_state("apply/errored");
    world.write("lib/a", &BASE.replace('9', "nine"));
    world.commit("lib", "another line");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(
        world.read("lib/a"),
        BASE.replace('2', "two").replace('9', "nine")
    );
    assert_eq!((world.commits("docs"), world.commits("lib")), (2, 4));
    // Aborting: the finished part is reversed by its own commit.
    snapshot.restore();
    let run = world.run_json(&["plan", "cancel", &plan]).succeeded();
    run.reports_state("apply/cancelled");
    assert_eq!(world.read("docs/a"), BASE);
    assert_eq!(world.read("lib/a"), BASE.replace('2', "theirs"));
    assert_eq!((world.commits("docs"), world.commits("lib")), (3, 2));
    for name in ["docs", "lib"] {
        assert_eq!(world.git_status(name), "");
    }
    // A conflicting edit is kept, and both finishing and aborting remain possible.
    snapshot.restore();
    world.write("docs/a", "mine\n");
    let run = world
        .run_json(&["plan", "cancel", &plan])
        .exits(4)
        .reports_state("apply/errored");
    assert_eq!(run.data()["conflicts"][0]["path"], "a");
    assert_eq!(world.read("docs/a"), "mine\n");
    world.git(&world.path("docs"), &["checkout", "-q", "a"]);
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    assert_eq!(world.read("docs/a"), BASE);
}

#[test]
fn a_killed_abort_can_be_finished_or_reapplied() {
    let (world, plan) = set_up_half_applied();
    let snapshot = WorldSnapshot::capture(&world, &["home", "docs", "lib"]);
    let cancel = ["plan", "cancel", &plan];
    let steps = kill_at_step(&world, &cancel, 0).steps;
    assert!(steps.contains(&ApplyStep::BranchMoved), "{steps:?}");
    for (number, step) in steps.iter().enumerate() {
        snapshot.restore();
        assert!(kill_at_step(&world, &cancel, number + 1).killed, "{step:?}");
        if number.is_multiple_of(2) {
            world
                .run_json(&cancel)
                .succeeded()
                .reports_state("apply/cancelled");
            assert_eq!(world.read("docs/a"), BASE, "{step:?}");
            assert_eq!(world.read("lib/a"), BASE.replace('2', "theirs"), "{step:?}");
        } else {
            world.write("lib/a", BASE);
            world.commit("lib", "not theirs after all");
            world
                .apply(&plan)
                .succeeded()
                .reports_state("apply/applied");
            assert_eq!(world.read("docs/a"), BASE.replace('2', "two"), "{step:?}");
            assert_eq!(world.read("lib/a"), BASE.replace('2', "two"), "{step:?}");
            // The reversal of the abort does not count as one of the finished apply.
            world
                .run_json(&["plan", "unapply", &plan, "--yes"])
                .succeeded()
                .reports_state("apply/unapplied");
            assert_eq!(world.read("docs/a"), BASE, "{step:?}");
            assert_eq!(world.read("lib/a"), BASE, "{step:?}");
        }
        for name in ["docs", "lib"] {
            assert_eq!(world.git_status(name), "", "{step:?}");
            world.git(&world.path(name), &["fsck", "--strict"]);
        }
    }
}

#[test]
fn an_unapplied_plan_can_be_applied_reverted_or_deleted() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    let unapply = ["plan", "unapply", &plan, "--yes"];
    for _ in 0..2 {
        world
            .run_json(&unapply)
            .succeeded()
            .reports_state("apply/unapplied");
    }
    assert_eq!(world.read("shop/a"), BASE);
    let listed = world.json_data(&["plan", "list", "--state", "unapplied"]);
    assert_eq!(listed["summary"]["unapplied"], 1, "{listed}");
    world
        .run_json(&["plan", "cancel", &plan])
        .succeeded()
        .reports_state("apply/unapplied");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "two"));
    assert_eq!(world.commits("shop"), 4);
    world
        .run_json(&unapply)
        .succeeded()
        .reports_state("apply/unapplied");
    let snapshot = WorldSnapshot::capture(&world, &["home"]);
    world
        .run_json(&["plan", "revert", &plan])
        .succeeded()
        .reports_state("strategize/queued");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "two"));
    snapshot.restore();
    world
        .run_json(&["plan", "delete", &plan, "--yes"])
        .succeeded();
    let other = world.create_plan(TRUSTED);
    world
        .run_json(&["plan", "unapply", &other, "--yes"])
        .exits(4);
}
