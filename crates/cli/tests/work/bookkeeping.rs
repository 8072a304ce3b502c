//! What the records of a plan say after it was cancelled, undone, rejected, rolled back or reverted.

use cleveragents_cli::bootstrap::ApplyStep;

use crate::kill_at_step::{WorldSnapshot, kill_at_step, kill_when_reached};
use crate::world::{BASE, TRUSTED, TestWorld, short_id};

const EDIT: &str = "- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}\n";

#[test]
fn a_cancelled_plan_is_neither_executed_nor_applied() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    let again = "agents plan use local/job local/shop";
    for verb in ["execute", "resume", "apply"] {
        let run = world.run_json(&["plan", verb, &plan]).exits(4);
        run.reports_state("execute/cancelled").prints(again);
    }
    assert_eq!(world.read("shop/a"), BASE);
    // The printed command creates another plan.
    world
        .run(&again.split(' ').skip(1).collect::<Vec<_>>())
        .succeeded();
    // Repeating what was done is not an error.
    let plan = world.create_executed_plan(EDIT);
    for verb in ["execute", "apply", "apply", "execute", "resume"] {
        world.run_json(&["plan", verb, &plan]).succeeded();
    }
    assert_eq!(world.commits("shop"), 2);
}

#[test]
fn a_repeated_apply_names_the_commit_that_it_made() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    let head = world.git(&world.path("shop"), &["rev-parse", "HEAD"]);
    // A blocked unapply is an attempt too, and not the one that was asked for.
    world.write("shop/a", "mine\n");
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .exits(4);
    let data = world.apply(&plan).succeeded().data();
    assert_eq!(
        data["resources"][0]["result"]["commit"],
        head.trim(),
        "{data}"
    );
    assert_eq!(data["resources"][0]["state"], "done", "{data}");
}

#[test]
fn failed_checks_are_errors_of_the_plan() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("checks: [{run: 'echo too old >&2; test -e other', name: other}]\n");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    let listed = world.json_data(&["plan", "errors", &plan]);
    assert_eq!(listed["errors"][0]["category"], "validation", "{listed}");
    let message = listed["errors"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("check/1 failed") && message.contains("too old"),
        "{message}"
    );
    let status = world.json_data(&["plan", "status", &plan]);
    assert_eq!(status["error"]["category"], "validation", "{status}");
    // The same failure again is counted.
    world.execute(&plan).exits(7);
    let listed = world.json_data(&["plan", "errors", &plan]);
    assert_eq!(listed["summary"]["total"], 1, "{listed}");
    assert_eq!(listed["errors"][0]["occurrences"], 2, "{listed}");
}

#[test]
fn failed_checks_of_a_merge_are_errors_of_the_plan() {
    let world = TestWorld::new();
    world.define_worker(EDIT);
    world.define_worker_job("checks: [{run: 'test ! -e theirs', name: alone}]\n");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    world.write("shop/theirs", "theirs\n");
    world.commit("shop", "meanwhile");
    world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    let errors = world.errors(&plan);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("check/1 failed on local/shop"),
        "{errors:?}"
    );
    let status = world.run_json(&["plan", "status", &plan]).succeeded();
    ["apply", "rebase", "cancel", "tree"]
        .iter()
        .fold(status, |status, verb| {
            status.prints(&format!("agents plan {verb} {plan}"))
        });
}

#[test]
fn hints_after_a_failed_apply_keep_its_destination() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let patch = world.path("missing/out.patch").display().to_string();
    world
        .run_json(&["plan", "apply", &plan, "--to", "patch", &patch, "--yes"])
        .exits(4);
    assert_eq!(world.state(&plan), "apply/errored");
    let again = format!("agents plan apply {plan} --to patch {patch}");
    world
        .run_json(&["plan", "errors", &plan])
        .succeeded()
        .prints(&again);
    // The hints of a conflict do not come from the error of the earlier apply.
    world.write("shop/a", &BASE.replace('2', "theirs"));
    world.commit("shop", "meanwhile");
    world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    world
        .run_json(&["plan", "status", &plan])
        .succeeded()
        .prints(&format!("agents plan rebase {plan}"));
}

#[test]
fn an_interrupted_unapply_is_not_called_an_apply() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    let unapply = ["plan", "unapply", &plan, "--yes"];
    let steps = kill_at_step(&world, &unapply, 0).steps.len();
    let finish = format!("agents plan unapply {}", short_id(&plan));
    let mut messages = Vec::new();
    for step in 1..=steps {
        snapshot.restore();
        assert!(kill_at_step(&world, &unapply, step).killed);
        let shown = world.run(&["plan", "status", &plan]).succeeded();
        let finished = world.run(&["project", "create", "other"]).succeeded();
        for run in [&shown, &finished] {
            assert!(!run.stderr.contains("an apply"), "{step}: {run:?}");
            assert!(!run.stderr.contains("interrupted apply"), "{step}: {run:?}");
        }
        assert!(shown.stderr.contains(&finish), "{step}: {shown:?}");
        messages.extend([shown.stderr, finished.stderr]);
    }
    let messages = messages.concat();
    for text in [
        "an unapply was interrupted before anything was changed: plan local/job",
        "an unapply was interrupted: plan local/job",
        "an interrupted unapply was finished: plan local/job",
    ] {
        assert!(messages.contains(text), "{text}: {messages}");
    }
}

/// Two identical runs: the second finds its change in the target, owns nothing of it, and undoing it
/// takes nothing from the first.
#[test]
fn undoing_a_plan_takes_nothing_from_an_identical_one() {
    let made = "- {tool: builtin/file-write, input: {path: made, content: made}}\n";
    let more = "- {tool: builtin/file-write, input: {path: more, content: more}}\n";
    for (resource, to) in [("shop", "current"), ("docs", "current"), ("shop", "patch")] {
        let world = TestWorld::empty();
        world.create_repository("shop");
        world.create_folder("docs");
        world.create_project("shop", &[resource]);
        let patch = world.path("out.patch").display().to_string();
        let to: Vec<&str> = match to {
            "patch" => vec!["--to", to, &patch],
            _ => vec!["--to", to],
        };
        let apply = |plan: &str| {
            let run = world.run_json(&[&["plan", "apply", plan], &to[..]].concat());
            run.succeeded().reports_state("apply/applied")
        };
        let unapply = |plan: &str| {
            let run = world.run_json(&["plan", "unapply", plan, "--yes"]);
            run.succeeded().reports_state("apply/unapplied")
        };
        let there = || (world.files(resource), std::fs::read(&patch).ok());
        let plans: Vec<String> = (0..2).map(|_| world.create_executed_plan(made)).collect();
        let larger = world.create_executed_plan(&[made, more].concat());
        let before = there();
        apply(&plans[0]);
        let applied = there();
        assert_ne!(applied, before, "{to:?}");
        let again = apply(&plans[1]).prints("the target already had these changes");
        assert_eq!(again.data()["resources"][0]["state"], "nothing");
        unapply(&plans[1]).prints("nothing of the plan was left to undo");
        assert_eq!(there(), applied, "{to:?}");
        if to[1] == "current" {
            apply(&larger);
            assert_eq!(world.read(&format!("{resource}/more")), "more");
            unapply(&larger).prints("Changes undone");
            assert_eq!(there(), applied, "{to:?}");
        }
        unapply(&plans[0]).prints("Changes undone");
        assert_eq!(there(), before, "{to:?}");
    }
}

/// The process dies after its decision, and the user makes the same commit before it is finished.
#[test]
fn undoing_a_plan_takes_nothing_from_a_commit_of_the_user() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let apply = ["plan", "apply", &plan, "--yes"];
    kill_when_reached(&world, &apply, &["home", "shop"], ApplyStep::Started);
    let edited = BASE.replace('2', "two");
    let shop = world.path("shop");
    for lock in ["index.lock", "refs/heads/main.lock", "HEAD.lock"] {
        let _ = std::fs::remove_file(shop.join(".git").join(lock));
    }
    world.write("shop/a", &edited);
    world.commit("shop", "by hand");
    let data = world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied")
        .data();
    assert_eq!(data["resources"][0]["state"], "nothing", "{data}");
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded()
        .reports_state("apply/unapplied");
    assert_eq!(world.read("shop/a"), edited);
    assert_eq!(world.commits("shop"), 2);
}
