//! A killed worker: the next one finds all confirmed work, once and in order.

use std::time::{Duration, Instant};

use crate::event_follower::{Follower, TestRng, is_process_running, sleep_for, wait_until_true};
use crate::world::{TRUSTED, TestWorld, trials};

/// Returns eight calls that leave their marks in order, through a tool and through a shell.
fn numbered_steps() -> String {
    let call = |number: u32| match number % 2 {
        0 => format!("- {{tool: builtin/shell, input: {{command: 'echo {number} >> log'}}}}\n"),
        _ => format!(
            "- {{tool: builtin/file-write, input: {{path: f{number}, content: '{number}'}}}}\n\
             - {{tool: builtin/shell, input: {{command: 'echo {number} >> log; echo {number} > g{number}'}}}}\n"
        ),
    };
    (1..=5).map(call).collect()
}

/// Asserts that the plan is complete as if no process had been killed.
#[track_caller]
fn assert_complete(world: &TestWorld, plan: &str, round: usize) {
    assert_eq!(world.state(plan), "execute/complete", "round {round}");
    let mut wanted = world.files("shop");
    wanted.insert("log".to_owned(), "0 1\n2\n3\n4\n5\n".to_owned());
    for number in [1, 3, 5] {
        wanted.insert(format!("f{number}"), format!("0 {number}"));
        wanted.insert(format!("g{number}"), format!("0 {number}\n"));
    }
    assert_eq!(world.sandbox_files(plan), wanted, "round {round}");
    let events = world.events(plan);
    let count = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
    assert_eq!(count("tool_completed"), 8, "round {round}");
    assert_eq!(
        count("tool_invoked"),
        count("tool_completed") + count("tool_interrupted"),
        "round {round}"
    );
    assert_eq!(count("change_recorded"), 11, "round {round}");
    let last = world.execute(plan).succeeded().data();
    assert_eq!(last["sandboxes"].as_array().unwrap().len(), 1);
    assert_eq!(last["sandbox"]["status"], "captured", "round {round}");
}

#[test]
fn a_worker_killed_anytime_does_each_step_once() {
    let world = TestWorld::new();
    world.define_worker(&numbered_steps());
    world.define_worker_job("");
    let mut rng = TestRng::new(7120);
    // The kills are spread over the time that the work takes on this machine.
    let began = Instant::now();
    world.execute(&world.create_plan(TRUSTED)).succeeded();
    let whole = u64::try_from(began.elapsed().as_millis()).unwrap();
    let mut kills = 0;
    for round in 0..trials(10) {
        let plan = world.create_plan(TRUSTED);
        // Up to four processes die on one plan; each takes over from the last at once.
        let mut words = ["plan", "execute", &plan, "--events"];
        for _ in 0..4 {
            let mut child = world.start(&words);
            sleep_for(Duration::from_millis(rng.next_below(whole)));
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            kills += usize::from(output.status.code().is_none());
            if round % 2 == 0 {
                words[1] = "resume";
            }
        }
        let run = if round % 2 == 0 {
            world.resume(&plan)
        } else {
            world.execute(&plan)
        };
        assert_eq!(run.code, Some(0), "round {round}: {run:?}");
        assert_complete(&world, &plan, round);
    }
    assert!(2 * kills >= trials(10), "many of them die at work: {kills}");
}

#[test]
fn the_next_worker_closes_open_records() {
    let world = TestWorld::new();
    // Long enough that no killed process could have finished first.
    world.define_worker("- {tool: builtin/shell, input: {command: 'sleep 600', timeout: 900}}\n");
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    for nth in 1..=3 {
        let mut child = world.start(&["plan", "execute", &plan]);
        let mut follower = Follower::start(&world, &plan);
        for _ in 0..nth {
            follower.wait_for("changeset_started");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    world.define_worker(&numbered_steps());
    world.execute(&plan).succeeded();
    let ids = |kind: &str, key: &str| {
        let events = world.events_of_kind(&plan, kind).into_iter();
        let mut ids: Vec<String> = events.map(|it| it["payload"][key].to_string()).collect();
        ids.sort();
        ids
    };
    let started = ids("changeset_started", "id");
    assert_eq!(started.len(), 4);
    assert_eq!(
        ids("changeset_closed", "changeset_id"),
        started,
        "each once"
    );
}

/// Kills the worker at this event, and lets the next one finish.
fn kill_after_event(world: &TestWorld, kind: &str, nth: usize) {
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(world, &plan);
    let mut child = world.start(&["plan", "execute", &plan]);
    for _ in 0..nth {
        follower.wait_for(kind);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    world.execute(&plan).succeeded();
    assert_complete(world, &plan, nth);
}

#[test]
fn a_worker_killed_at_an_event_is_replaced() {
    let world = TestWorld::new();
    world.define_worker(&numbered_steps());
    world.define_worker_job("");
    for (kind, nth) in [
        ("execute_requested", 1),
        ("strategy_stored", 1),
        ("strategy_approved", 1),
        ("sandbox_intended", 1),
        ("sandbox_state_changed", 1),
        ("actor_invoked", 1),
        ("changeset_started", 1),
        ("tool_invoked", 1),
        ("tool_invoked", 4),
        ("process_started", 1),
        ("process_started", 3),
        ("tool_completed", 1),
        ("change_recorded", 5),
        ("tool_completed", 8),
        ("actor_completed", 1),
        ("validations_completed", 1),
        ("sandbox_state_changed", 2),
    ] {
        kill_after_event(&world, kind, nth);
    }
}

#[test]
fn a_worker_killed_during_repair_repeats_no_attempt() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: made, content: made}}\n\
         fix:\n\
         - {tool: builtin/shell, input: {command: 'echo x >> mended'}}\n",
    );
    world.define_worker_job("checks: [{run: 'touch mended; test $(wc -l < mended) -ge 2'}]\n");
    for (kind, nth) in [
        ("validations_completed", 1),
        ("tool_invoked", 2),
        ("tool_completed", 2),
        ("validations_completed", 2),
        ("tool_invoked", 3),
        ("tool_completed", 3),
        ("validations_completed", 3),
    ] {
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        for _ in 0..nth {
            follower.wait_for(kind);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        let files = world.sandbox_files(&plan);
        assert_eq!(files["mended"], "0 x\nx\n", "after {kind} {nth}");
        assert_eq!(
            world.events_of_kind(&plan, "tool_completed").len(),
            3,
            "after {kind} {nth}"
        );
    }
}

#[test]
fn automatic_apply_survives_a_killed_worker() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: '{{ args.file }}', content: made}}",
    );
    world.define_worker_job("arguments: [{name: file, type: string, required: true}]\n");
    for (number, kind) in [
        "tool_completed",
        "validations_completed",
        "apply_requested",
        "apply_intended",
        "apply_decided",
    ]
    .into_iter()
    .enumerate()
    {
        let plan = world.create_plan_for("shop", "ci", &["--arg", &format!("file=f{number}")]);
        let mut follower = Follower::start(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        follower.wait_for(kind);
        child.kill().unwrap();
        child.wait().unwrap();
        world
            .execute(&plan)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(world.commits("shop"), number + 2, "after {kind}");
        assert_eq!(world.read(&format!("shop/f{number}")), "made");
        assert_eq!(world.git_status("shop"), "", "after {kind}");
    }
    // The moment between Execute and Apply is short, so kills are repeated until one hits it.
    let is_hit = (0..20).any(|round| kill_before_automatic_apply(&world, &format!("g{round}")));
    assert!(is_hit, "no kill hit the moment before Apply");
}

/// Kills the worker when Execute is complete and finishes the plan. Returns whether Apply had not
/// been requested yet.
fn kill_before_automatic_apply(world: &TestWorld, file: &str) -> bool {
    let plan = world.create_plan_for("shop", "ci", &["--arg", &format!("file={file}")]);
    // The worker's own events have no delay.
    let mut worker = Follower::from_child(world.start(&["plan", "execute", &plan, "--events"]));
    worker.wait_for("validations_completed");
    worker.wait_until("Execute is complete", |event| {
        let payload = event["payload"].to_string();
        event["kind"] == "plan_state_changed" && payload.contains("complete")
    });
    drop(worker);
    let is_before = world.state(&plan) == "execute/complete";
    world
        .execute(&plan)
        .succeeded()
        .reports_state("apply/applied");
    is_before
}

#[test]
fn an_unreported_strategy_is_not_approved() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("");
    for round in 0..trials(20) {
        let plan = world.create_plan("supervised");
        let mut worker = Follower::from_child(world.start(&["plan", "execute", &plan, "--events"]));
        worker.wait_until("the strategy is made", |event| {
            let payload = event["payload"].to_string();
            event["kind"] == "plan_state_changed" && payload.contains("complete")
        });
        // Killed, perhaps before it released the run.
        drop(worker);
        let events = world.events(&plan);
        let released = events.iter().any(|it| it["kind"] == "run_released");
        let run = world.execute(&plan);
        if released {
            run.succeeded().reports_state("execute/complete")
        } else {
            run.exits(5).reports_state("strategize/complete")
        };
        let approved = world.events_of_kind(&plan, "strategy_approved").len();
        assert_eq!(approved, usize::from(released), "round {round}");
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
    }
}

#[test]
fn an_interrupted_command_is_ended_and_undone() {
    let world = TestWorld::new();
    for round in 0..trials(3) {
        let marker = format!("3153{}", 6100 + round);
        let command = format!(
            "echo ready > ready; setsid sh -c \"while :; do echo {marker} >> noise; done\" & \
             sleep {marker}"
        );
        world.define_worker(&format!(
            "- {{tool: builtin/shell, input: {{command: 'echo 1 >> log'}}}}\n\
             - {{tool: builtin/shell, input: {{command: '{command}', timeout: 600}}}}\n"
        ));
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        let mut child = world.start(&["plan", "execute", &plan]);
        let mut follower = Follower::start(&world, &plan);
        follower.wait_for("process_started");
        follower.wait_for("process_started");
        let tree = world.sandbox_tree(&plan);
        wait_until_true("the writer writes", || tree.join("noise").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        // The next worker makes another call instead.
        world.define_worker(
            "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
             - {tool: builtin/shell, input: {command: 'echo 2 >> log'}}\n",
        );
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert!(!is_process_running(&marker), "round {round}");
        let mut wanted = world.files("shop");
        wanted.insert("log".to_owned(), "0 1\n2\n".to_owned());
        assert_eq!(world.sandbox_files(&plan), wanted, "round {round}");
        assert_eq!(world.events_of_kind(&plan, "tool_interrupted").len(), 1);
    }
}

#[test]
fn a_call_with_outside_effects_needs_approval_to_repeat() {
    let world = TestWorld::new();
    world
        .run(&["config", "set", "sandbox.network", "allow"])
        .succeeded();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 2 >> log; test -e go || sleep 31536200', \
         timeout: 45}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let kill_at_work = |nth: usize| {
        let mut child = world.start(&["plan", "execute", &plan]);
        let mut follower = Follower::start(&world, &plan);
        for _ in 0..nth {
            follower.wait_for("process_started");
        }
        wait_until_true("the command sleeps", || is_process_running("31536200"));
        child.kill().unwrap();
        child.wait().unwrap();
    };
    kill_at_work(2);
    // Repeating it was not approved, so it is not repeated.
    world
        .execute(&plan)
        .exits(5)
        .reports_state("execute/queued");
    let run = world.run_json(&["plan", "status", &plan]).succeeded();
    assert_eq!(run.data()["waiting"]["kind"], "approval", "{run:?}");
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 2);
    assert_eq!(world.events_of_kind(&plan, "process_started").len(), 2);
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
    let refused = &world.events_of_kind(&plan, "tool_refused")[0]["payload"];
    assert_eq!(refused["kind"], "needs_approval");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("may use the network"), "{reason}");
    assert!(reason.contains("agents plan rollback"), "{reason}");

    // The approval allows one repetition; after another kill the plan asks again.
    kill_at_work(3);
    let run = world
        .execute(&plan)
        .exits(5)
        .reports_state("execute/queued");
    run.prints(&format!("agents plan execute {plan}"));
    assert_eq!(world.events_of_kind(&plan, "process_started").len(), 3);

    // A different command was never started, so it needs no approval.
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 3 >> log'}}\n",
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n3\n");
}

#[test]
fn a_call_without_outside_effects_is_repeated() {
    for confinement in ["namespaces", "landlock"] {
        assert_repeated_without_approval(confinement);
    }
}

fn assert_repeated_without_approval(confinement: &str) {
    let world = TestWorld::new();
    world
        .run(&["config", "set", "sandbox.confinement", confinement])
        .succeeded();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 2 >> log; sleep 31536201', timeout: 600}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let mut first = world.start(&["plan", "execute", &plan]);
    Follower::start(&world, &plan).wait_for("process_started");
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = world.start(&["plan", "execute", &plan]);
    let mut follower = Follower::start(&world, &plan);
    follower.wait_for("tool_interrupted");
    follower.wait_for("process_started");
    second.kill().unwrap();
    second.wait().unwrap();
    assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 0);
}

#[test]
fn a_dead_worker_does_not_block_cancel_and_rollback() {
    let world = TestWorld::new();
    for command in ["cancel", "rollback"] {
        world.define_worker(
            "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
             - {tool: builtin/shell, input: {command: 'echo 2 >> log; sleep 31536200', timeout: 600}}\n",
        );
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        let mut child = world.start(&["plan", "execute", &plan]);
        let mut follower = Follower::start(&world, &plan);
        follower.wait_for("process_started");
        follower.wait_for("process_started");
        child.kill().unwrap();
        child.wait().unwrap();
        if command == "cancel" {
            let run = world.run_json(&["plan", "cancel", &plan]);
            run.succeeded().reports_state("execute/cancelled");
            assert!(!is_process_running("31536200"));
            continue;
        }
        let run = world.run_json(&["plan", "rollback", &plan, "1"]);
        run.succeeded().reports_state("execute/queued");
        assert!(!is_process_running("31536200"));
        assert_eq!(world.sandbox_files(&plan), world.files("shop"));
        world.define_worker("- {tool: builtin/shell, input: {command: 'echo 3 >> log'}}\n");
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 3\n");
    }
}
