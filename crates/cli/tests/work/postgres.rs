//! Execution of plans on PostgreSQL, which several machines share.

use std::path::PathBuf;
use std::process::Child;

use crate::event_follower::Follower;
use crate::world::{AgentsRun, TRUSTED, TestWorld};

const STEPS: &str = "\
- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}
- {tool: builtin/file-write, input: {path: made, content: made}}
- {tool: builtin/shell, input: {command: 'echo 2 >> log'}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
";

/// A world with its own schema, which is dropped with it.
struct PostgresWorld {
    world: TestWorld,
    schema: String,
}

impl PostgresWorld {
    fn new(name: &str) -> Self {
        let schema = format!("work_{name}_{}", std::process::id());
        psql(&TestWorld::empty(), &format!("CREATE SCHEMA {schema}"));
        let url = postgres_url();
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}options=-csearch_path%3D{schema}");
        let world = TestWorld::empty().with_database(url);
        world.create_repository("shop");
        world.create_project("shop", &["shop"]);
        Self { world, schema }
    }
}

impl Drop for PostgresWorld {
    fn drop(&mut self) {
        psql(
            &self.world,
            &format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema),
        );
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the run that starts the server says by this where it is"
)]
fn postgres_url() -> String {
    match std::env::var("CLEVERAGENTS_TEST_POSTGRES") {
        Ok(url) => url,
        Err(_) => panic!("this test needs PostgreSQL: run `cargo xtask test`, which starts one"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "psql is where whoever runs the tests has it"
)]
fn psql(world: &TestWorld, sql: &str) {
    let url = postgres_url();
    let words = [url.as_str(), "-v", "ON_ERROR_STOP=1", "-qAtc", sql];
    let mut command = world.other_program(&PathBuf::from("psql"), &words);
    command
        .current_dir("/")
        .env("PGOPTIONS", "-c client_min_messages=error");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("psql is needed here: {error}"));
    AgentsRun::from_output(output).succeeded();
}

fn wait_for_run(child: Child) -> AgentsRun {
    AgentsRun::from_output(child.wait_with_output().unwrap())
}

/// Asserts that the repository has the plan's changes.
#[track_caller]
fn assert_applied(world: &TestWorld) {
    assert_eq!(world.read("shop/log"), "1\n2\n");
    assert_eq!(world.read("shop/made"), "made");
    assert_eq!(world.read("shop/a"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
    assert_eq!(world.git_status("shop"), "");
    assert_eq!(world.commits("shop"), 2, "one commit");
}

#[test]
fn a_plan_is_executed_applied_and_unapplied_once() {
    let shared = PostgresWorld::new("story");
    let world = &shared.world;
    let before = world.files("shop");
    let plan = world.create_executed_plan(STEPS);
    assert_eq!(world.events_of_kind(&plan, "tool_completed").len(), 4);
    assert_eq!(world.commits("shop"), 1);
    let words = ["plan", "apply", &plan, "--yes", "--format", "json"];
    let children: Vec<Child> = (0..4).map(|_| world.start(&words)).collect();
    let mut applied = 0;
    for child in children {
        let run = wait_for_run(child);
        match run.code {
            Some(0) => applied += 1,
            // A process that found another one running is refused.
            _ => drop(run.exits(4)),
        }
    }
    assert!(applied >= 1);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_applied(world);
    assert_eq!(world.events_of_kind(&plan, "plan_applied").len(), 1);
    for _ in 0..2 {
        let back = world.run_json(&["plan", "unapply", &plan, "--yes"]);
        back.succeeded();
        assert_eq!(world.files("shop"), before);
        assert_eq!(world.git_status("shop"), "");
    }
    assert_eq!(world.events_of_kind(&plan, "plan_unapplied").len(), 1);
}

#[track_caller]
fn assert_steps_completed_once(world: &TestWorld, plan: &str, what: &str) {
    assert_eq!(world.sandbox_files(plan)["log"], "0 1\n2\n", "{what}");
    let events = world.events(plan);
    let count = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
    assert_eq!(count("tool_completed"), 4, "{what}");
    let interrupted = count("tool_interrupted");
    assert_eq!(count("tool_invoked"), 4 + interrupted, "{what}");
}

#[test]
fn a_killed_worker_is_resumed() {
    let shared = PostgresWorld::new("killed");
    let world = &shared.world;
    world.define_worker(STEPS);
    world.define_worker_job("");
    for (kind, nth) in [
        ("strategy_stored", 1),
        ("sandbox_intended", 1),
        ("tool_invoked", 1),
        ("process_started", 2),
        ("tool_completed", 3),
        ("validations_completed", 1),
    ] {
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        for _ in 0..nth {
            follower.wait_for(kind);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let what = format!("{kind} {nth}");
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert_steps_completed_once(world, &plan, &what);
    }
    for kind in ["apply_intended", "apply_decided"] {
        let plan = world.create_plan(TRUSTED);
        world.execute(&plan).succeeded();
        let mut follower = Follower::start(world, &plan);
        let mut child = world.start(&["plan", "apply", &plan, "--yes"]);
        follower.wait_for(kind);
        child.kill().unwrap();
        child.wait().unwrap();
        // Any next command finishes or aborts it.
        world.run(&["init"]).succeeded();
        match world.state(&plan).as_str() {
            "apply/applied" => {}
            "apply/errored" => {
                assert_eq!(kind, "apply_intended", "only forward from the decision");
                assert_eq!(world.commits("shop"), 1);
                world
                    .apply(&plan)
                    .succeeded()
                    .reports_state("apply/applied");
            }
            other => panic!("{kind}: {other}"),
        }
        assert_applied(world);
        world
            .run_json(&["plan", "unapply", &plan, "--yes"])
            .succeeded();
        let shop = world.path("shop");
        world.git(&shop, &["reset", "-q", "--hard", "HEAD~2"]);
    }
}

#[test]
fn a_plan_on_another_machine_names_the_machine() {
    let mut shared = PostgresWorld::new("elsewhere");
    let world = &mut shared.world;
    let plan = world.create_executed_plan(STEPS);
    let half = world.create_plan("supervised");
    world
        .execute(&half)
        .exits(5)
        .reports_state("strategize/complete");
    let shown = world.json_data(&["info"])["node"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = world.events(&plan).len();

    world.switch_home("second");
    assert_ne!(world.json_data(&["info"])["node"], shown.as_str());
    for (words, command) in [
        (&["plan", "apply", &plan, "--yes"][..], "plan apply"),
        (&["plan", "rollback", &plan, "1"], "plan rollback"),
        (
            &["plan", "reject", &plan, "made", "--why", "no"],
            "plan reject",
        ),
        (&["plan", "diff", &plan], "plan diff"),
        (&["plan", "artifacts", &plan], "plan diff"),
    ] {
        let run = world
            .run_json(words)
            .exits(4)
            .prints("is on another machine");
        run.prints(&shown)
            .prints(&format!("on that machine: agents {command} {plan}"));
    }
    assert_eq!(world.events(&plan).len(), before, "nothing is on record");
    assert_eq!(world.state(&plan), "execute/complete");
    // Commands that need only the database work from every machine.
    world.run_json(&["plan", "status", &plan]).succeeded();
    let listed = world.json_data(&["sandbox", "list"]);
    assert_eq!(listed["sandboxes"][0]["on_disk"], false);
    assert_eq!(listed["sandboxes"][0]["node"], shown.as_str());
    world
        .run(&["sandbox", "list"])
        .succeeded()
        .prints("elsewhere");
    // A plan without a sandbox can be executed on any machine.
    world
        .execute(&half)
        .succeeded()
        .reports_state("execute/complete");

    // Sandboxes of another machine are never removed here, whatever the state of the plan.
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    let swept = world.json_data(&["sandbox", "gc"]);
    assert_eq!(swept["summary"]["removed"], 0, "{swept}");
    let reasons = swept["kept"].to_string();
    assert!(reasons.contains(&shown), "{reasons}");

    world.switch_home("home");
    world
        .run_json(&["plan", "execute", &half])
        .succeeded()
        .reports_state("execute/complete");
    world.apply(&half).exits(4).prints("is on another machine");
    let swept = world.json_data(&["sandbox", "gc"]);
    assert_eq!(swept["summary"]["removed"], 1, "{swept}");
}

#[test]
fn a_plan_is_unapplied_on_the_machine_that_applied_it() {
    let mut shared = PostgresWorld::new("back");
    let world = &mut shared.world;
    let plan = world.create_executed_plan(STEPS);
    world.apply(&plan).succeeded();
    assert_applied(world);
    world.switch_home("second");
    // Every machine can report that the plan is applied.
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .exits(4)
        .prints(&format!("on that machine: agents plan unapply {plan}"));
    assert_applied(world);
    world.switch_home("home");
    world
        .run_json(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    assert_eq!(world.commits("shop"), 3);
}
