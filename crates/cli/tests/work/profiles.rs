//! How far each built-in profile lets a plan go at each command.

use crate::world::{Run, World};

const ARGUMENT: &str = "arguments: [{name: file, type: string, required: true}]\n";

fn furnished() -> World {
    let world = World::new();
    world.worker("- {tool: builtin/file-write, input: {path: '{{ args.file }}', content: made}}");
    world.job(ARGUMENT);
    world
}

fn new_plan(world: &World, profile: &str, file: &str) -> String {
    let plan = world.plan_of("shop", profile, &["--arg", &format!("file={file}")]);
    assert_eq!(world.state(&plan), "strategize/queued");
    assert_eq!(world.trees(&plan).len(), 0, "no work is done yet");
    plan
}

/// A finished plan says so to every command, and nothing happens again.
#[track_caller]
fn is_applied(world: &World, plan: &str, file: &str) {
    let commits = world.commits("shop");
    assert_eq!(world.read(&format!("shop/{file}")), "made");
    assert_eq!(world.dirt("shop"), "");
    let told = world.events(plan).len();
    for command in ["execute", "apply"] {
        let again = world.ask(&["plan", command, plan]);
        again.succeeded().stands("apply/applied");
    }
    assert_eq!(world.events(plan).len(), told);
    assert_eq!(world.commits("shop"), commits);
}

#[track_caller]
fn is_executed(world: &World, run: Run, plan: &str) {
    let data = run.succeeded().stands("execute/complete").data();
    assert_eq!(data["tool_calls"], 1, "{data}");
    assert_eq!(data["changes"], 1, "{data}");
    assert_eq!(data["sandbox"]["status"], "captured", "{data}");
    assert_eq!(world.told(plan, "tool_invoked").len(), 1);
    // Where nothing is outstanding the command says how the plan stands.
    let again = world.execute(plan).succeeded().stands("execute/complete");
    again.says("nothing is outstanding");
    assert_eq!(world.told(plan, "tool_invoked").len(), 1);
}

#[test]
fn each_built_in_profile_stops_where_it_says() {
    let world = furnished();
    let mut commits = world.commits("shop");
    let unsure = new_plan(&world, "cautious", "unsure");
    world.execute(&unsure).exits(5);
    // Nobody knows yet how such plans go, so a careful profile is not sure.
    for profile in ["cautious", "manual", "review", "supervised"] {
        let plan = new_plan(&world, profile, profile);
        let stopped = world.execute(&plan).exits(5).stands("strategize/complete");
        let data = stopped.says(&format!("agents plan execute {plan}")).data();
        let hash = data["strategy_summary"]["hash"].clone();
        assert_eq!(
            data["strategy_summary"]["approved_by"],
            serde_json::Value::Null
        );
        assert_eq!(world.told(&plan, "tool_invoked").len(), 0);
        is_executed(&world, world.execute(&plan), &plan);
        let approved = world.told(&plan, "strategy_approved");
        assert_eq!(approved.len(), 1);
        assert_eq!(approved[0]["payload"]["hash"], hash);
        assert_eq!(world.commits("shop"), commits, "nobody said apply");
        world.apply(&plan).succeeded().stands("apply/applied");
        commits += 1;
        assert_eq!(world.commits("shop"), commits);
        is_applied(&world, &plan, profile);
    }
    for profile in ["trusted", "auto"] {
        let plan = new_plan(&world, profile, profile);
        is_executed(&world, world.execute(&plan), &plan);
        assert_eq!(world.commits("shop"), commits, "nobody said apply");
        world.apply(&plan).succeeded().stands("apply/applied");
        commits += 1;
        is_applied(&world, &plan, profile);
    }
    for profile in ["ci", "full-auto"] {
        let plan = new_plan(&world, profile, profile);
        world.execute(&plan).succeeded().stands("apply/applied");
        commits += 1;
        assert_eq!(world.commits("shop"), commits);
        is_applied(&world, &plan, profile);
    }
    // Eight plans that went well make a careful profile sure.
    let plan = new_plan(&world, "cautious", "sure");
    is_executed(&world, world.execute(&plan), &plan);
    let by = world.told(&plan, "strategy_approved");
    assert_eq!(by[0]["actor"], "profile cautious");
    // So it is of one that had to stop, when somebody looks again: the profile lets it go on, and
    // no human is said to have.
    let resumed = world.ask(&["plan", "resume", &unsure]);
    is_executed(&world, resumed, &unsure);
    let by = world.told(&unsure, "strategy_approved");
    assert_eq!(by[0]["actor"], "profile cautious");
    assert_eq!(world.told(&unsure, "execute_requested").len(), 1);
}

#[test]
fn what_comes_too_early_or_too_late_is_refused_with_the_state() {
    let world = furnished();
    let plan = new_plan(&world, "supervised", "x");
    world.apply(&plan).exits(4);
    assert_eq!(world.state(&plan), "strategize/queued");
    world.execute(&plan).exits(5);
    world.apply(&plan).exits(4);
    assert_eq!(world.state(&plan), "strategize/complete");
    let unapply = ["plan", "unapply", &plan];
    world.ask(&unapply).exits(4);
    let checkpoints = ["plan", "rollback", &plan, "1"];
    world.ask(&checkpoints).exits(3);
    world.run(&["plan", "cancel", &plan]).succeeded();
    for command in ["execute", "apply"] {
        let run = world.ask(&["plan", command, &plan]);
        run.succeeded().stands("strategize/cancelled");
    }
    world.execute("nobody-knows").exits(2);
    world.apply("01JZZZZZZZ0000000000000000").exits(3);
}

#[test]
fn a_profile_that_may_apply_alone_is_stopped_by_its_guard_for_apply() {
    let world = furnished();
    world.profile("local/ask", "guards: {require_approval_for_apply: true}\n");
    let plan = new_plan(&world, "local/ask", "asked");
    let commits = world.commits("shop");
    let run = world.execute(&plan).succeeded().stands("execute/complete");
    run.says("wants a human's approval before changes are applied");
    assert_eq!(world.commits("shop"), commits);
    world.apply(&plan).succeeded().stands("apply/applied");
    is_applied(&world, &plan, "asked");
    world.profile("local/free", "");
    let plan = new_plan(&world, "local/free", "free");
    world.execute(&plan).succeeded().stands("apply/applied");
    is_applied(&world, &plan, "free");
}

#[test]
fn the_direct_actor_in_both_roles_changes_nothing_and_is_applied() {
    let world = World::new();
    world.define_job("builtin/direct", "");
    let plan = world.plan("trusted");
    let before = world.files("shop");
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(
        (&data["tool_calls"], &data["changes"]),
        (&0.into(), &0.into())
    );
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.commits("shop"), 1, "nothing to commit");
    assert_eq!(world.files("shop"), before);
    assert_eq!(world.dirt("shop"), "");
}
