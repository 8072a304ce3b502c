//! Results of plans whose targets have moved: merged and validated again, or executed again.

use cleveragents_cli::bootstrap::ApplyStep;
use serde_json::Value;

use crate::kill_at_step::{WorldSnapshot, kill_at_step, stop_at_step};
use crate::kill_points::{CHANGING_CALLS, can_trace, kill_at};
use crate::world::{AgentsRun, BASE, TRUSTED, TestWorld, trials};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Replaces the second line, whatever it contains.
const SECOND_LINE: &str =
    "- {tool: builtin/shell, input: {command: \"sed -i '2s/.*/two/' a && echo made > made\"}}\n";

fn rebase(world: &TestWorld, plan: &str) -> AgentsRun {
    world.run_json(&["plan", "rebase", plan])
}

fn head(world: &TestWorld, repository: &str) -> String {
    let head = world.git(&world.path(repository), &["rev-parse", "HEAD"]);
    head.trim().to_owned()
}

/// Commits a change of one line of `a` as the user.
fn commit_user_change(world: &TestWorld, repository: &str, old: &str, new: &str) {
    let path = format!("{repository}/a");
    let text = world.read(&path);
    world.write(&path, &text.replace(old, new));
    world.commit(repository, "theirs");
}

/// Creates and executes a plan whose action has this check.
fn create_checked_plan(world: &TestWorld, steps: &str, check: &str) -> String {
    world.define_worker(steps);
    world.define_worker_job(&format!("checks: [{{run: {check:?}}}]\n"));
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    plan
}

/// Returns the hints of an answer.
fn hints(run: &AgentsRun) -> String {
    let envelope: Value = serde_json::from_str(&run.stdout).unwrap();
    let messages = envelope["messages"].as_array().unwrap().iter();
    let hints: Vec<&Value> = messages.filter(|it| it["level"] == "hint").collect();
    format!("{hints:?} {}", envelope["data"]["error"]["hints"])
}

#[test]
fn a_result_is_merged_with_the_commits_of_its_target() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let before = head(&world, "shop");
    commit_user_change(&world, "shop", "9", "nine");
    let data = rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete")
        .data();
    let after = head(&world, "shop");
    assert_eq!(data["plan_id"], plan.as_str());
    assert_eq!(data["conflicts"].as_array().map(Vec::len), Some(0));
    let resource = &data["resources"][0];
    assert_eq!(resource["resource"], "local/shop", "{data}");
    assert_eq!(resource["from"], before.as_str());
    assert_eq!(resource["to"], after.as_str());
    // Changes of the target are not listed as changes of the plan.
    let diff = world.run(&["plan", "diff", &plan, "--patch", "--format", "plain"]);
    let diff = diff.succeeded().stdout;
    assert!(diff.contains("+two") && !diff.contains("nine"), "{diff}");
    // The sandbox's own git agrees.
    let sandbox = world.sandbox_tree(&plan);
    let shown = |words: &[&str]| {
        let words = [&["-c", "safe.directory=*"], words].concat();
        world.git(&sandbox, &words)
    };
    assert_eq!(shown(&["status", "--porcelain"]), " M a\n?? made\n");
    assert_eq!(shown(&["rev-parse", "HEAD"]).trim(), after.as_str());
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        2
    );
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let both = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("shop/a"), both);
    assert_eq!(world.commits("shop"), 3);
    assert_eq!(world.git_status("shop"), "");
    let parent = world.git(&world.path("shop"), &["rev-parse", "HEAD^"]);
    assert_eq!(parent.trim(), after);
    let refs = world.git(&world.path("shop"), &["for-each-ref", "refs/cleveragents"]);
    assert!(!refs.contains("-next"), "{refs}");
}

/// The user has made the same merge and discarded it, so git finds the objects and does not write
/// them again. The published result is pruned along with its ref.
#[test]
fn a_merge_survives_pruned_user_objects() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    commit_user_change(&world, "shop", "9", "nine");
    commit_user_change(&world, "shop", "2", "two");
    world.write("shop/made", "made");
    world.commit("shop", "the same");
    let shop = world.path("shop");
    world.git(&shop, &["reset", "-q", "--hard", "HEAD~2"]);
    rebase(&world, &plan).succeeded();
    let published = format!("refs/cleveragents/plan-{plan}");
    world.git(&shop, &["update-ref", "-d", &published]);
    world.git(&shop, &["reflog", "expire", "--expire=now", "--all"]);
    world.git(&shop, &["gc", "-q", "--prune=now"]);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let both = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("shop/a"), both);
    world.git(&shop, &["fsck", "--full", "--strict"]);
}

#[test]
fn an_unmoved_target_is_not_rebased() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let events = world.events(&plan).len();
    let at = head(&world, "shop");
    let said = format!("nothing to rebase: the target is still at {}", &at[..7]);
    let run = rebase(&world, &plan).succeeded().prints(&said);
    run.reports_state("execute/complete");
    assert_eq!(world.events(&plan).len(), events);
    world.apply(&plan).succeeded();
}

#[test]
fn validations_run_again_on_the_merge() {
    let world = TestWorld::new();
    let plan = create_checked_plan(&world, EDIT, "! grep -q nine a");
    commit_user_change(&world, "shop", "9", "nine");
    let run = rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/constrained")
        .prints("required validations failed");
    assert_eq!(run.data()["validations"]["required_failed"], 1);
    assert!(
        hints(&run).contains(&format!("agents plan execute {plan}")),
        "{run:?}"
    );
    world.apply(&plan).exits(4);
    assert_eq!(world.commits("shop"), 2);
    let snapshot = WorldSnapshot::capture(&world, &["home"]);
    world
        .run_json(&["plan", "revert", &plan])
        .succeeded()
        .reports_state("strategize/queued");
    world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    snapshot.restore();
    world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    // When the target passes again, so does the result.
    commit_user_change(&world, "shop", "nine", "neuf");
    rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let both = BASE.replace('2', "two").replace('9', "neuf");
    assert_eq!(world.read("shop/a"), both);
}

#[test]
fn unmergeable_work_is_executed_again_on_the_target() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(SECOND_LINE);
    commit_user_change(&world, "shop", "2", "2 theirs");
    let refused = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    assert!(
        hints(&refused).contains(&format!("agents plan rebase {plan}")),
        "{refused:?}"
    );
    let run = rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/queued");
    assert_eq!(run.data()["conflicts"][0]["path"], "a", "{run:?}");
    assert!(
        hints(&run).contains(&format!("agents plan execute {plan}")),
        "{run:?}"
    );
    let errors = world.json_data(&["plan", "errors", &plan]);
    let last = errors["errors"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["category"], "merge_conflict", "{errors}");
    // There is nothing to rebase before it is executed.
    let again = rebase(&world, &plan).exits(4);
    assert!(
        hints(&again).contains(&format!("agents plan execute {plan}")),
        "{again:?}"
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), BASE.replace('2', "two"));
    assert_eq!(world.read("shop/made"), "made\n");
    assert_eq!(world.commits("shop"), 3);
    assert_eq!(world.git_status("shop"), "");
}

/// A plan that changes the second line of `a` in two repositories.
fn set_up_two_resources() -> (TestWorld, String) {
    let world = TestWorld::empty();
    let names = ["docs", "lib"];
    for name in names {
        world.create_repository(name);
    }
    world.create_project("shop", &names);
    let steps = names.map(|name| {
        format!(
            "- {{tool: builtin/shell, resource: local/{name}, \
             input: {{command: \"sed -i '2s/.*/two/' a\"}}}}\n"
        )
    });
    let plan = world.create_executed_plan(&steps.concat());
    (world, plan)
}

#[test]
fn all_resources_are_rebased_or_none() {
    let (world, plan) = set_up_two_resources();
    commit_user_change(&world, "docs", "9", "nine");
    commit_user_change(&world, "lib", "8", "eight");
    let lib = world.path("lib");
    // One repository is missing, or in the middle of a merge: nothing is rebased.
    std::fs::rename(&lib, world.path("away")).unwrap();
    let run = rebase(&world, &plan)
        .exits(4)
        .reports_state("execute/complete");
    let place = run.data()["conflicts"][0]["place"].clone();
    assert_eq!(place, lib.display().to_string(), "{run:?}");
    std::fs::rename(world.path("away"), &lib).unwrap();
    let merging = lib.join(".git/MERGE_HEAD");
    std::fs::copy(lib.join(".git/refs/heads/main"), &merging).unwrap();
    let run = rebase(&world, &plan)
        .exits(4)
        .reports_state("execute/complete");
    let reason = run.data()["conflicts"][0]["reason"].to_string();
    assert!(reason.contains("merge is in progress"), "{run:?}");
    std::fs::remove_file(&merging).unwrap();
    assert_eq!(world.events_of_kind(&plan, "plan_rebased").len(), 0);
    // One conflicts: the plan is executed again in both.
    let snapshot = WorldSnapshot::capture(&world, &["home", "docs", "lib"]);
    commit_user_change(&world, "lib", "2", "2 theirs");
    let run = rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/queued");
    let data = run.data();
    let moved = data["resources"].as_array().unwrap().iter();
    assert_eq!(moved.filter(|it| it["from"] != it["to"]).count(), 2);
    world.execute(&plan).succeeded();
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let docs = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("docs/a"), docs);
    let libs = BASE.replace('2', "two").replace('8', "eight");
    assert_eq!(world.read("lib/a"), libs);
    // Both merge.
    snapshot.restore();
    rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("docs/a"), docs);
    assert_eq!(world.read("lib/a"), libs);
    assert_eq!((world.commits("docs"), world.commits("lib")), (3, 3));
}

#[test]
fn only_an_unapplied_result_is_rebased() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    world.apply(&plan).succeeded();
    rebase(&world, &plan)
        .exits(4)
        .reports_state("apply/applied");
    // An unapplied plan can be rebased onto newer commits.
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    commit_user_change(&world, "shop", "9", "nine");
    rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let both = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("shop/a"), both);
    snapshot.restore();
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    rebase(&world, &plan)
        .exits(4)
        .reports_state("execute/cancelled");
    let new = world.create_plan(TRUSTED);
    let run = rebase(&world, &new)
        .exits(4)
        .reports_state("strategize/queued");
    assert!(
        hints(&run).contains(&format!("agents plan execute {new}")),
        "{run:?}"
    );
}

#[test]
fn a_plan_run_by_another_process_is_not_rebased() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    commit_user_change(&world, "shop", "9", "nine");
    let words = ["plan", "apply", &plan, "--yes"];
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    let steps = kill_at_step(&world, &words, 0).steps;
    snapshot.restore();
    let step = steps.iter().position(|it| *it == ApplyStep::Staged);
    let mut apply = stop_at_step(&world, &words, step.unwrap() + 1);
    let run = rebase(&world, &plan);
    apply.kill().unwrap();
    apply.wait().unwrap();
    run.exits(4).prints("is being run by");
    // Once the process is dead, nothing blocks the rebase.
    rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete");
    world.apply(&plan).succeeded();
}

#[test]
fn rollback_refuses_checkpoints_of_the_old_base() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    commit_user_change(&world, "shop", "9", "nine");
    rebase(&world, &plan).succeeded();
    let kept = world.json_data(&["plan", "checkpoints", &plan]);
    let kept = kept["checkpoints"].as_array().unwrap().clone();
    let number = |it: &Value| it["number"].as_i64().unwrap().to_string();
    let is_last = |it: &&Value| it["label"].as_str().unwrap().starts_with("Rebased");
    let (last, earlier): (Vec<&Value>, Vec<&Value>) = kept.iter().partition(is_last);
    assert_eq!((last.len(), earlier.len()), (1, 3), "{kept:?}");
    for checkpoint in earlier {
        let number = number(checkpoint);
        let words = ["plan", "rollback", &plan, &number, "--yes"];
        world
            .run_json(&words)
            .exits(4)
            .prints("before the plan was rebased");
    }
    // Later checkpoints can be restored.
    let rejected = ["plan", "reject", &plan, "made", "--why", "not needed"];
    world.run_json(&rejected).succeeded();
    let number = number(last[0]);
    let words = ["plan", "rollback", &plan, &number, "--yes"];
    world
        .run_json(&words)
        .succeeded()
        .reports_state("execute/queued");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world.apply(&plan).succeeded();
    let both = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("shop/a"), both);
    assert_eq!(world.read("shop/made"), "made");
}

#[test]
fn a_killed_rebase_can_be_finished() {
    let world = TestWorld::new();
    if let Err(reason) = can_trace(&world) {
        eprintln!("not run: {reason}");
        return;
    }
    let plan = world.create_executed_plan(EDIT);
    commit_user_change(&world, "shop", "9", "nine");
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    let words = ["plan", "rebase", &plan];
    let all = kill_at(&world, &words, CHANGING_CALLS, 0).stops;
    assert!(all > 20, "{all}");
    let both = BASE.replace('2', "two").replace('9', "nine");
    let tries = trials(12);
    let mut states = std::collections::BTreeSet::new();
    for number in 1..=tries {
        snapshot.restore();
        let traced = kill_at(&world, &words, CHANGING_CALLS, all * number / (tries + 1));
        let shown = format!("{traced:?}");
        states.insert(world.state(&plan));
        match number % 2 {
            0 => {
                let run = rebase(&world, &plan).succeeded();
                run.reports_state("execute/complete");
            }
            _ => drop(world.run_json(&["plan", "resume", &plan]).succeeded()),
        }
        world
            .apply(&plan)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(world.read("shop/a"), both, "{shown}");
        assert_eq!(world.read("shop/made"), "made", "{shown}");
        assert_eq!(world.commits("shop"), 3, "{shown}");
        assert_eq!(world.git_status("shop"), "", "{shown}");
        world.git(&world.path("shop"), &["fsck", "--strict"]);
    }
    // The kills covered both sides of the write that changes the plan's state.
    assert!(states.contains("execute/complete"), "{states:?}");
    assert!(states.contains("execute/processing"), "{states:?}");
}

#[test]
fn an_apply_validates_its_merge_with_a_target_that_has_moved() {
    let world = TestWorld::new();
    let plan = create_checked_plan(&world, EDIT, "! grep -q nine a");
    let files = world.sandbox_files(&plan);
    commit_user_change(&world, "shop", "9", "nine");
    let refused = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    let reason = refused.data()["conflicts"][0]["reason"].to_string();
    assert!(reason.contains("validations fail on the merge"), "{reason}");
    let hint = format!("agents plan rebase {plan}");
    assert!(hints(&refused).contains(&hint), "{refused:?}");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.git_status("shop"), "");
    assert_eq!(world.sandbox_files(&plan), files);
    let refs = world.git(&world.path("shop"), &["for-each-ref", "refs/cleveragents"]);
    assert!(!refs.contains("refs/cleveragents/apply/"), "{refs}");
    rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/constrained");
    // A merge that passes is committed.
    commit_user_change(&world, "shop", "nine", "neuf");
    rebase(&world, &plan).succeeded();
    commit_user_change(&world, "shop", "8", "eight");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let all = BASE.replace('2', "two").replace('9', "neuf");
    assert_eq!(world.read("shop/a"), all.replace('8', "eight"));
    let ran = world.events_of_kind(&plan, "validations_completed");
    assert!(ran.last().unwrap()["payload"]["merge"].is_string());
}

#[test]
fn a_stopped_apply_is_finished_on_a_moved_target_only_if_validations_pass() {
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
    let plan = create_checked_plan(&world, &steps.concat(), "! grep -q nine a");
    let words = ["plan", "apply", &plan, "--yes"];
    let snapshot = WorldSnapshot::capture(&world, &["home", "docs", "lib"]);
    let steps = kill_at_step(&world, &words, 0).steps;
    snapshot.restore();
    let step = steps.iter().position(|it| *it == ApplyStep::DoneRecorded);
    assert!(kill_at_step(&world, &words, step.unwrap() + 1).killed);
    std::fs::remove_file(world.path("lib/.git/index.lock")).unwrap();
    commit_user_change(&world, "lib", "9", "nine");
    // An unrelated command runs no validations.
    world.run(&["init"]).succeeded();
    assert_eq!(world.state(&plan), "apply/errored");
    assert_eq!(world.commits("docs"), 2);
    let stopped = world.apply(&plan).exits(4).reports_state("apply/errored");
    let reason = stopped.data()["conflicts"][0]["reason"].to_string();
    assert!(reason.contains("validations fail on the merge"), "{reason}");
    world.apply(&plan).exits(4).reports_state("apply/errored");
    assert_eq!(world.commits("lib"), 2);
    let snapshot = WorldSnapshot::capture(&world, &["home", "docs", "lib"]);
    // Finishing, once they pass.
    commit_user_change(&world, "lib", "nine", "neuf");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let merged = BASE.replace('2', "two").replace('9', "neuf");
    assert_eq!(world.read("lib/a"), merged);
    assert_eq!((world.commits("docs"), world.commits("lib")), (2, 4));
    // Aborting.
    snapshot.restore();
    world
        .run_json(&["plan", "cancel", &plan])
        .succeeded()
        .reports_state("apply/cancelled");
    assert_eq!(world.read("docs/a"), BASE);
    assert_eq!(world.read("lib/a"), BASE.replace('9', "nine"));
    // A rebase, which aborts the apply first.
    snapshot.restore();
    rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/constrained");
    assert_eq!(world.read("docs/a"), BASE);
    commit_user_change(&world, "lib", "nine", "neuf");
    rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("docs/a"), BASE.replace('2', "two"));
    assert_eq!(world.read("lib/a"), merged);
}

/// A plan on the folder `papers`, which is no repository.
fn create_folder_plan(steps: &str) -> (TestWorld, String) {
    let world = TestWorld::empty();
    world.write("papers/a", BASE);
    world.write("papers/dir/b", "one\n");
    world.create_project("shop", &["papers"]);
    let plan = world.create_executed_plan(steps);
    (world, plan)
}

#[test]
fn a_result_is_merged_with_the_files_of_its_folder() {
    let (world, plan) = create_folder_plan(EDIT);
    let said = "nothing to rebase: the folder has not changed";
    let unmoved = rebase(&world, &plan).succeeded().prints(said);
    let resource = unmoved.data()["resources"][0].clone();
    assert!(resource["from"].is_string(), "{unmoved:?}");
    assert_eq!(resource["from"], resource["to"]);
    world.write("papers/a", &BASE.replace('9', "nine"));
    world.write("papers/new", "new\n");
    std::fs::remove_file(world.path("papers/dir/b")).unwrap();
    let refused = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    let hint = format!("agents plan rebase {plan}");
    assert!(hints(&refused).contains(&hint), "{refused:?}");
    let data = rebase(&world, &plan)
        .succeeded()
        .reports_state("execute/complete")
        .data();
    let resource = &data["resources"][0];
    assert_eq!(resource["resource"], "local/papers", "{data}");
    assert_ne!(resource["from"], resource["to"], "{data}");
    // What the user changed is no change of the plan's.
    let diff = world.run(&["plan", "diff", &plan, "--patch", "--format", "plain"]);
    let diff = diff.succeeded().stdout;
    assert!(diff.contains("+two") && !diff.contains("nine"), "{diff}");
    let files = world.sandbox_files(&plan);
    assert!(
        files.contains_key("new") && !files.contains_key("dir/b"),
        "{files:?}"
    );
    assert!(world.sandbox_tree(&plan).join("dir").is_dir());
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        2
    );
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let both = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("papers/a"), both);
    assert_eq!(world.read("papers/made"), "made");
    assert_eq!(world.read("papers/new"), "new\n");
    assert!(world.path("papers/dir").is_dir());
}

#[test]
fn unmergeable_work_is_executed_again_on_the_folder() {
    let (world, plan) = create_folder_plan(SECOND_LINE);
    world.write(
        "papers/a",
        &BASE.replace('2', "2 theirs").replace('9', "nine"),
    );
    world.write("papers/made", "theirs\n");
    let refused = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    let hint = format!("agents plan rebase {plan}");
    assert!(hints(&refused).contains(&hint), "{refused:?}");
    let run = rebase(&world, &plan)
        .exits(5)
        .reports_state("execute/queued");
    assert_eq!(run.data()["conflicts"][0]["path"], "a", "{run:?}");
    let hint = format!("agents plan execute {plan}");
    assert!(hints(&run).contains(&hint), "{run:?}");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let again = BASE.replace('2', "two").replace('9', "nine");
    assert_eq!(world.read("papers/a"), again);
    assert_eq!(world.read("papers/made"), "made\n");
}

#[test]
fn a_folder_that_is_gone_blocks_a_rebase() {
    let (world, plan) = create_folder_plan(EDIT);
    let papers = world.path("papers");
    std::fs::rename(&papers, world.path("away")).unwrap();
    let run = rebase(&world, &plan)
        .exits(4)
        .reports_state("execute/complete");
    let place = run.data()["conflicts"][0]["place"].clone();
    assert_eq!(place, papers.display().to_string(), "{run:?}");
}
