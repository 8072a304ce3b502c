//! How far each built-in profile lets a plan go at each command.

use crate::world::{AgentsRun, TestWorld};

const ARGUMENT: &str = "arguments: [{name: file, type: string, required: true}]\n";

fn world_with_job() -> TestWorld {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: '{{ args.file }}', content: made}}",
    );
    world.define_worker_job(ARGUMENT);
    world
}

fn create_plan(world: &TestWorld, profile: &str, file: &str) -> String {
    let plan = world.create_plan_for("shop", profile, &["--arg", &format!("file={file}")]);
    assert_eq!(world.state(&plan), "strategize/queued");
    assert_eq!(world.sandbox_trees(&plan).len(), 0, "no work is done yet");
    plan
}

/// Asserts that every command reports a finished plan as such, and nothing happens again.
#[track_caller]
fn assert_applied(world: &TestWorld, plan: &str, file: &str) {
    let commits = world.commits("shop");
    assert_eq!(world.read(&format!("shop/{file}")), "made");
    assert_eq!(world.git_status("shop"), "");
    let event_count = world.events(plan).len();
    for command in ["execute", "apply"] {
        let again = world.run_json(&["plan", command, plan]);
        again.succeeded().reports_state("apply/applied");
    }
    assert_eq!(world.events(plan).len(), event_count);
    assert_eq!(world.commits("shop"), commits);
}

#[track_caller]
fn assert_executed(world: &TestWorld, run: AgentsRun, plan: &str) {
    let data = run.succeeded().reports_state("execute/complete").data();
    assert_eq!(data["tool_calls"], 1, "{data}");
    assert_eq!(data["changes"], 1, "{data}");
    assert_eq!(data["sandbox"]["status"], "captured", "{data}");
    assert_eq!(world.events_of_kind(plan, "tool_invoked").len(), 1);
    // If there is nothing to run, the command reports the plan's state.
    let again = world
        .execute(plan)
        .succeeded()
        .reports_state("execute/complete");
    again.prints("Nothing to run");
    assert_eq!(world.events_of_kind(plan, "tool_invoked").len(), 1);
}

#[track_caller]
fn apply_plan(world: &TestWorld, plan: &str) {
    let applied = world.apply(plan).succeeded();
    applied.reports_state("apply/applied");
}

#[test]
fn each_built_in_profile_stops_at_its_gate() {
    let world = world_with_job();
    let mut commits = world.commits("shop");
    let unsure = create_plan(&world, "cautious", "unsure");
    world.execute(&unsure).exits(5);
    // Without a history of such plans the confidence is too low for a careful profile.
    for profile in ["cautious", "manual", "review", "supervised"] {
        let plan = create_plan(&world, profile, profile);
        let stopped = world
            .execute(&plan)
            .exits(5)
            .reports_state("strategize/complete");
        let data = stopped
            .prints(&format!("agents plan execute {plan}"))
            .data();
        let hash = data["strategy_summary"]["hash"].clone();
        assert_eq!(
            data["strategy_summary"]["approved_by"],
            serde_json::Value::Null
        );
        assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 0);
        assert_executed(&world, world.execute(&plan), &plan);
        let approved = world.events_of_kind(&plan, "strategy_approved");
        assert_eq!(approved.len(), 1);
        assert_eq!(approved[0]["payload"]["hash"], hash);
        assert_eq!(world.commits("shop"), commits, "nobody said apply");
        apply_plan(&world, &plan);
        commits += 1;
        assert_eq!(world.commits("shop"), commits);
        assert_applied(&world, &plan, profile);
    }
    for profile in ["trusted", "auto"] {
        let plan = create_plan(&world, profile, profile);
        assert_executed(&world, world.execute(&plan), &plan);
        assert_eq!(world.commits("shop"), commits, "nobody said apply");
        apply_plan(&world, &plan);
        commits += 1;
        assert_applied(&world, &plan, profile);
    }
    for profile in ["ci", "full-auto"] {
        let plan = create_plan(&world, profile, profile);
        world
            .execute(&plan)
            .succeeded()
            .reports_state("apply/applied");
        commits += 1;
        assert_eq!(world.commits("shop"), commits);
        assert_applied(&world, &plan, profile);
    }
    // Eight successful plans raise the confidence enough for a careful profile.
    let plan = create_plan(&world, "cautious", "sure");
    assert_executed(&world, world.execute(&plan), &plan);
    let by = world.events_of_kind(&plan, "strategy_approved");
    assert_eq!(by[0]["actor"], "profile cautious");
    // This also lets the plan that had to stop continue when it is resumed. The approval is
    // recorded as the profile's, not as the user's.
    let resumed = world.run_json(&["plan", "resume", &unsure]);
    assert_executed(&world, resumed, &unsure);
    let by = world.events_of_kind(&unsure, "strategy_approved");
    assert_eq!(by[0]["actor"], "profile cautious");
    assert_eq!(world.events_of_kind(&unsure, "execute_requested").len(), 1);
}

#[test]
fn commands_in_the_wrong_state_are_refused() {
    let world = world_with_job();
    let plan = create_plan(&world, "supervised", "x");
    world.apply(&plan).exits(4);
    assert_eq!(world.state(&plan), "strategize/queued");
    world.execute(&plan).exits(5);
    world.apply(&plan).exits(4);
    assert_eq!(world.state(&plan), "strategize/complete");
    let unapply = ["plan", "unapply", &plan];
    world.run_json(&unapply).exits(4);
    let checkpoints = ["plan", "rollback", &plan, "1"];
    world.run_json(&checkpoints).exits(3);
    world.run(&["plan", "cancel", &plan]).succeeded();
    for command in ["execute", "apply"] {
        let run = world.run_json(&["plan", command, &plan]);
        run.exits(4).reports_state("strategize/cancelled");
    }
    world.execute("nobody-knows").exits(2);
    world.apply("01JZZZZZZZ0000000000000000").exits(3);
}

#[test]
fn the_apply_guard_stops_an_automatic_apply() {
    let world = world_with_job();
    world.define_profile("local/ask", "guards: {require_approval_for_apply: true}\n");
    let plan = create_plan(&world, "local/ask", "asked");
    let commits = world.commits("shop");
    let run = world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    run.prints("requires your approval before changes are applied");
    assert_eq!(world.commits("shop"), commits);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_applied(&world, &plan, "asked");
    world.define_profile("local/free", "");
    let plan = create_plan(&world, "local/free", "free");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_applied(&world, &plan, "free");
}

#[test]
fn a_plan_of_the_direct_actor_changes_nothing() {
    let world = TestWorld::new();
    world.define_job("builtin/direct", "");
    let plan = world.create_plan("trusted");
    let before = world.files("shop");
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(
        (&data["tool_calls"], &data["changes"]),
        (&0.into(), &0.into())
    );
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.commits("shop"), 1, "nothing to commit");
    assert_eq!(world.files("shop"), before);
    assert_eq!(world.git_status("shop"), "");
}
