//! A killed worker with a model: answered requests are not repeated, and completed work is done
//! once and in order after a resume.
//!
//! Each request takes the next turn of the script, even if the process dies before it gets the
//! answer. So the answered turns depend on when the process was killed. The records list them, and
//! every turn leaves its own marks: turn 7 writes the file `f7` and appends `7` to `log`. The
//! result must have exactly the marks of the answered turns, in their order.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::event_follower::{Follower, TestRng, is_process_running, sleep_for, wait_until_true};
use crate::models::{assert_no_repeated_calls, finish, turn};
use crate::world::{TRUSTED, TestWorld, trials};

/// Every third turn ends a step.
const TURNS_OF_A_STEP: u64 = 3;

/// More turns than any trial uses.
const TURNS: u64 = 60;

/// A strategist that reads, then submits three steps; a worker that leaves its marks.
fn set_up(world: &TestWorld) {
    let strategy = "{summary: Marks, confidence: 1, decisions: [{question: Where?, chosen: Here}], \
                    steps: [{title: One}, {title: Two}, {title: Three}]}";
    let plan = |number: u64| match number % 2 {
        0 => turn(&[("file-list", "{}"), ("file-read", "{path: a}")]),
        _ => turn(&[("submit-strategy", strategy)]),
    };
    world.define_llm_actor("planner", &(0..TURNS).map(plan).collect::<String>(), "");
    let work = |number: u64| {
        let write = format!("{{path: f{number}, content: '{number}'}}");
        let append = format!("{{command: 'echo {number} >> log; sleep 0.02'}}");
        let mut calls = vec![
            ("file-read", "{path: a}"),
            ("file-write", write.as_str()),
            ("shell", append.as_str()),
        ];
        if number % TURNS_OF_A_STEP == TURNS_OF_A_STEP - 1 {
            calls.push(("finish", "{summary: Marked}"));
        }
        format!("{}    delay_ms: 20\n", turn(&calls))
    };
    world.define_llm_actor("marker", &(0..TURNS).map(work).collect::<String>(), "");
    world.define_llm_job(
        "local/planner",
        "local/marker",
        "checks: [{run: 'test -e log'}]\n",
    );
}

/// Asserts that the plan is complete as if no process had been killed.
#[track_caller]
fn assert_complete(world: &TestWorld, plan: &str, trial: &str) {
    assert_eq!(world.state(plan), "execute/complete", "{trial}");
    let model_calls = world.model_calls(plan);
    assert_no_repeated_calls(&model_calls);
    let answered: Vec<u64> = model_calls
        .iter()
        .filter(|it| it["actor"] == "local/marker" && it["state"] == "answered")
        .map(|it| it["ordinal"].as_u64().unwrap())
        .collect();
    let mut wanted = world.files("shop");
    let mut log = "0 ".to_owned();
    for number in &answered {
        writeln!(log, "{number}").unwrap();
        wanted.insert(format!("f{number}"), format!("0 {number}"));
    }
    wanted.insert("log".to_owned(), log);
    assert_eq!(world.sandbox_files(plan), wanted, "{trial}");

    let events = world.events(plan);
    let count = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
    let ended = |state: &str| model_calls.iter().filter(|it| it["state"] == state).count();
    assert_eq!(count("model_asked"), model_calls.len(), "{trial}");
    assert_eq!(count("model_answered"), ended("answered"), "{trial}");
    assert_eq!(count("model_interrupted"), ended("interrupted"), "{trial}");
    assert_eq!(
        model_calls.len(),
        ended("answered") + ended("interrupted"),
        "{trial}"
    );
    let invoked = count("tool_completed") + count("tool_interrupted");
    assert_eq!(count("tool_invoked"), invoked, "{trial}");
    assert_eq!(count("tool_refused") + count("tool_errored"), 0, "{trial}");
    assert_eq!(count("strategy_stored"), 1, "{trial}");
    assert_eq!(count("actor_completed"), 3, "{trial}");
    // The task, the method, the place, and one per step.
    let tree = world.json_data(&["plan", "tree", plan]);
    assert_eq!(tree["summary"]["nodes"], 6, "{trial}: {tree}");
    assert!(world.errors(plan).is_empty(), "{trial}");
}

#[test]
fn a_resumed_model_may_change_the_files_that_it_has_read() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("file-read", "{path: a}")]),
        // The process dies while it waits for this answer.
        format!("{}    delay_ms: 600000\n", finish("Never")),
        turn(&[("file-write", "{path: a, content: changed}")]),
        finish("It is changed"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(&world, &plan);
    let mut child = world.start(&["plan", "execute", &plan]);
    follower.wait_until("the second request begins", |event| {
        event["kind"] == "model_asked" && event["payload"]["number"] == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert!(world.errors(&plan).is_empty(), "{:?}", world.errors(&plan));
    assert_eq!(world.sandbox_files(&plan)["a"], "0 changed");
}

#[test]
fn an_llm_worker_killed_anytime_does_each_call_once() {
    let world = TestWorld::new();
    set_up(&world);
    let mut rng = TestRng::new(5);
    let began = Instant::now();
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    assert_complete(&world, &plan, "nobody is killed");
    let whole = u64::try_from(began.elapsed().as_millis()).unwrap();
    let mut kills = 0;
    for round in 0..trials(10) {
        let plan = world.create_plan(TRUSTED);
        let mut words = ["plan", "execute", &plan, "--events"];
        for _ in 0..4 {
            let mut child = world.start(&words);
            sleep_for(Duration::from_millis(rng.next_below(whole)));
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            kills += usize::from(output.status.code().is_none());
            words[1] = "resume";
        }
        let run = world.resume(&plan);
        assert_eq!(run.code, Some(0), "round {round}: {run:?}");
        assert_complete(&world, &plan, &format!("round {round}"));
    }
    assert!(2 * kills >= trials(10), "many of them die at work: {kills}");
}

#[test]
fn a_conversation_killed_at_an_event_is_resumed() {
    let world = TestWorld::new();
    set_up(&world);
    for (kind, nth) in [
        ("model_asked", 1),
        ("model_answered", 1),
        ("model_asked", 2),
        ("model_answered", 2),
        ("decision_created", 2),
        ("decision_created", 3),
        ("strategy_stored", 1),
        ("model_asked", 3),
        ("model_answered", 3),
        ("tool_invoked", 5),
        ("tool_completed", 5),
        ("model_answered", 5),
        ("tool_completed", 13),
        ("actor_completed", 1),
        ("model_answered", 6),
        ("actor_completed", 3),
    ] {
        let trial = format!("killed after {kind} {nth}");
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        (0..nth).for_each(|_| drop(follower.wait_for(kind)));
        child.kill().unwrap();
        child.wait().unwrap();
        world
            .resume(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert_complete(&world, &plan, &trial);
    }
}

#[test]
fn a_resume_dry_run_reports_without_running() {
    let world = TestWorld::new();
    set_up(&world);
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(&world, &plan);
    let mut child = world.start(&["plan", "execute", &plan]);
    // The third answer is the worker's first; its first call is complete after that.
    (0..3).for_each(|_| drop(follower.wait_for("model_answered")));
    follower.wait_for("tool_completed");
    child.kill().unwrap();
    child.wait().unwrap();
    let before = world.events(&plan);
    let data = world.json_data(&["plan", "resume", &plan, "--dry-run"]);
    assert_eq!(data["outlook"]["next"], "execute", "{data}");
    assert!(
        data["outlook"]["stored_answers"].as_u64().unwrap() >= 3,
        "{data}"
    );
    assert!(
        data["outlook"]["confirmed_calls"].as_u64().unwrap() >= 4,
        "{data}"
    );
    assert_eq!(world.events(&plan), before, "nothing was done");
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_complete(&world, &plan, "after a look");
}

#[test]
fn an_llm_worker_killed_during_repair_repeats_no_attempt() {
    let world = TestWorld::new();
    let work = |number: u64| {
        let append = format!("{{command: 'echo {number} >> log'}}");
        let calls = [("shell", append.as_str()), ("finish", "{summary: Mended}")];
        turn(&calls)
    };
    world.define_llm_actor("coder", &(0..TURNS).map(work).collect::<String>(), "");
    let check = "checks: [{run: 'test $(wc -l < log) -ge 3'}]\n";
    world.define_llm_job("builtin/direct", "local/coder", check);
    for (kind, nth) in [
        ("actor_completed", 1),
        ("validations_completed", 1),
        ("model_asked", 2),
        ("model_answered", 2),
        ("tool_invoked", 3),
        ("tool_completed", 3),
        ("tool_completed", 4),
        ("validations_completed", 2),
        ("model_asked", 3),
        ("tool_completed", 6),
        ("validations_completed", 3),
    ] {
        let trial = format!("killed after {kind} {nth}");
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        (0..nth).for_each(|_| drop(follower.wait_for(kind)));
        child.kill().unwrap();
        child.wait().unwrap();
        world
            .resume(&plan)
            .succeeded()
            .reports_state("execute/complete");
        let model_calls = world.model_calls(&plan);
        assert_no_repeated_calls(&model_calls);
        let answered_calls = model_calls.iter().filter(|it| it["state"] == "answered");
        let answered: String = answered_calls
            .map(|it| format!("{}\n", it["ordinal"]))
            .collect();
        assert_eq!(answered.lines().count(), 3, "{trial}");
        let files = world.sandbox_files(&plan);
        assert_eq!(files["log"], format!("0 {answered}"), "{trial}");
        let completed = world.events_of_kind(&plan, "tool_completed");
        let of = |tool: &str| {
            let made = completed.iter().filter(|it| it["payload"]["tool"] == tool);
            made.count()
        };
        assert_eq!(of("builtin/shell"), 3, "{trial}");
        // If the process died between the last command and the recorded end, the repair counts as
        // done.
        assert!(matches!(of("builtin/finish"), 2 | 3), "{trial}");
    }
}

#[test]
fn an_interrupted_model_command_is_ended_and_undone() {
    let world = TestWorld::new();
    let command = "echo 0 >> log; setsid sh -c \"while :; do echo x >> noise; done\" & \
                   until test -e go; do sleep 0.05; done";
    let first = format!("{{command: '{command}', timeout: 600}}");
    let turns = [
        turn(&[("shell", first.as_str())]),
        turn(&[("finish", "{summary: Done}")]),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(&world, &plan);
    let mut child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    let tree = world.sandbox_tree(&plan);
    wait_until_true("the writer writes", || tree.join("noise").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // The resumed process repeats the call in a tree without the traces of the first attempt.
    let next = world.start(&["plan", "resume", &plan]);
    follower.wait_for("process_started");
    let tree = world.sandbox_tree(&plan);
    wait_until_true("the writer writes again", || tree.join("noise").exists());
    std::fs::File::create(tree.join("go")).unwrap();
    assert!(next.wait_with_output().unwrap().status.success());
    assert_eq!(world.state(&plan), "execute/complete");
    assert!(!is_process_running("echo x >> noise"));
    assert_eq!(world.sandbox_files(&plan)["log"], "0 0\n");
    assert_eq!(world.events_of_kind(&plan, "tool_interrupted").len(), 1);
    assert_eq!(world.model_call_states(&plan), ["answered", "answered"]);
}

#[test]
fn a_running_plan_is_unchanged_without_its_model() {
    let world = TestWorld::new();
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    world.define_llm_actor("coder", &format!("{never}{}", finish("Done")), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world.kill_during_first_model_call(&plan);
    let (script, aside) = (world.path("home/coder-script.yaml"), world.path("aside"));
    std::fs::rename(&script, &aside).unwrap();
    let event_count = world.events(&plan).len();
    for command in ["execute", "resume"] {
        let refused = world.run_json(&["plan", command, &plan]).exits(2);
        refused.prints("local/coder cannot use its model");
    }
    assert_eq!(world.state(&plan), "execute/processing");
    assert_eq!(world.events(&plan).len(), event_count);
    std::fs::rename(&aside, &script).unwrap();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
}
