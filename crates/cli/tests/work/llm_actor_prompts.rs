//! Messages between users and models while a plan runs: questions that park it, and prompts that
//! are delivered once, even after a crash.

use rustix::process::{Pid, Signal, kill_process};

use crate::event_follower::Follower;
use crate::models::{assert_no_repeated_calls, finish, messages_text, turn};
use crate::world::{TRUSTED, TestWorld};

/// Longer than any test runs.
const ENDLESS_DELAY: &str = "    delay_ms: 80000000\n";

/// Counts a text in a request.
fn count_in_request(model_call: &serde_json::Value, words: &str) -> usize {
    messages_text(model_call).matches(words).count()
}

#[test]
fn a_question_parks_the_plan_until_it_is_answered() {
    let world = TestWorld::new();
    let turns = [
        turn(&[
            ("shell", "{command: 'echo 1 >> log'}"),
            ("ask-user", "{question: 'Which colour?'}"),
        ]),
        turn(&[("shell", "{command: 'echo 2 >> log'}")]),
        finish("Painted"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(5)
        .reports_state("execute/queued");
    let run = run.prints("Which colour?");
    run.prints(&format!("agents plan prompt {plan}"));
    world.assert_waiting_for(&plan, "answer");
    assert_eq!(world.model_calls(&plan).len(), 1);

    // Without an answer the plan does not continue, and no process waits.
    world.resume(&plan).exits(5).reports_state("execute/queued");
    world.assert_waiting_for(&plan, "answer");
    assert_eq!(
        world.model_calls(&plan).len(),
        1,
        "nothing is asked meanwhile"
    );

    world
        .run_json(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 3);
    assert_eq!(count_in_request(&model_calls[0], "A light blue"), 0);
    assert_eq!(count_in_request(&model_calls[1], "A light blue"), 1);
    assert_eq!(count_in_request(&model_calls[2], "A light blue"), 1);
    assert_eq!(world.events_of_kind(&plan, "message_taken").len(), 1);
}

#[test]
fn a_question_of_the_strategy_actor_parks_the_plan() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("ask-user", "{question: 'Which colour?'}")]),
        crate::models::strategy(&["Paint"]),
        finish("Painted"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("local/coder", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(5)
        .reports_state("strategize/queued");
    world.assert_waiting_for(&plan, "answer");
    world
        .run_json(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    assert_eq!(
        count_in_request(&model_calls[1], "Message from the user: A light blue"),
        1
    );
    // The worker gets it too.
    assert!(
        count_in_request(&model_calls[2], "A light blue") > 0,
        "{}",
        model_calls[2]
    );
}

/// Creates a plan whose first call ends only when the test releases it.
fn create_held_plan(world: &TestWorld, turns: &[String]) -> String {
    let hold = "{command: 'until test -e go; do sleep 0.05; done', timeout: 600}";
    let turns = [turn(&[("shell", hold)]), turns.concat()].concat();
    world.define_llm_actor("coder", &turns, "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    world.create_plan(TRUSTED)
}

fn release_held_call(world: &TestWorld, plan: &str) {
    let tree = world.sandbox_tree(plan);
    std::fs::File::create(tree.join("go")).unwrap();
}

#[test]
fn a_prompt_reaches_a_running_plan_once() {
    let world = TestWorld::new();
    let plan = create_held_plan(&world, &[turn(&[("file-list", "{}")]), finish("Done")]);
    let mut follower = Follower::start(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    for words in ["Mind the gap", "Take your time"] {
        let data = world.json_data(&["plan", "prompt", &plan, words]);
        assert_eq!(data["delivered_to"], "owner", "{data}");
    }
    release_held_call(&world, &plan);
    crate::world::AgentsRun::from_output(child.wait_with_output().unwrap()).succeeded();
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 3);
    for words in ["Mind the gap", "Take your time"] {
        let counts: Vec<usize> = model_calls
            .iter()
            .map(|it| count_in_request(it, words))
            .collect();
        assert_eq!(counts, [0, 1, 1], "{words}");
    }
    assert_eq!(world.events_of_kind(&plan, "message_taken").len(), 1);
}

/// Asserts that the last request has the prompt once, and none has it more than once.
#[track_caller]
fn assert_prompt_delivered_once(world: &TestWorld, plan: &str, moment: &str) {
    let model_calls = world.model_calls(plan);
    let last = model_calls.last().unwrap();
    assert_eq!(
        count_in_request(last, "Mind the gap"),
        1,
        "{moment}: {last}"
    );
    assert_eq!(
        count_in_request(last, "Message from the user: Mind the gap"),
        1,
        "{moment}"
    );
    assert_no_repeated_calls(&model_calls);
    assert!(
        model_calls
            .iter()
            .all(|it| count_in_request(it, "Mind the gap") <= 1),
        "{moment}"
    );
    assert_eq!(
        world.events_of_kind(plan, "message_taken").len(),
        1,
        "{moment}"
    );
}

#[test]
fn a_prompt_is_delivered_once_despite_kills() {
    for moment in [
        "before it is heard",
        "while the model thinks about it",
        "after the answer",
    ] {
        let world = TestWorld::new();
        let slow = |turn: String, at: &str| {
            if moment == at {
                format!("{turn}{ENDLESS_DELAY}")
            } else {
                turn
            }
        };
        let turns = [
            slow(
                turn(&[("file-list", "{}")]),
                "while the model thinks about it",
            ),
            slow(turn(&[("file-read", "{path: a}")]), "after the answer"),
            finish("Done"),
        ];
        let plan = create_held_plan(&world, &turns);
        let mut follower = Follower::start(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        follower.wait_for("process_started");
        world
            .run_json(&["plan", "prompt", &plan, "Mind the gap"])
            .succeeded();
        if moment != "before it is heard" {
            release_held_call(&world, &plan);
            follower.wait_for("message_taken");
            follower.wait_for("model_asked");
            if moment == "after the answer" {
                follower.wait_for("model_answered");
                follower.wait_for("model_asked");
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if moment == "before it is heard" {
            let mut next = world.start(&["plan", "resume", &plan]);
            follower.wait_for("process_started");
            release_held_call(&world, &plan);
            assert!(next.wait().unwrap().success());
        } else {
            world.resume(&plan).succeeded();
        }
        assert_eq!(world.state(&plan), "execute/complete", "{moment}");
        assert_prompt_delivered_once(&world, &plan, moment);
    }
}

#[test]
fn a_killed_worker_does_not_repeat_an_answered_question() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("ask-user", "{question: 'Which colour?'}")]),
        format!("{}{ENDLESS_DELAY}", finish("Never")),
        finish("Painted"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(5);
    world
        .run_json(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    let mut follower = Follower::start(&world, &plan);
    let mut child = world.start(&["plan", "resume", &plan]);
    follower.wait_for("message_taken");
    child.kill().unwrap();
    child.wait().unwrap();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    assert_eq!(
        world.model_call_states(&plan),
        ["answered", "interrupted", "answered"]
    );
    assert_eq!(
        count_in_request(&model_calls[2], "A light blue"),
        1,
        "{}",
        model_calls[2]
    );
    assert_no_repeated_calls(&model_calls);
}

#[test]
fn an_interrupted_plan_can_be_resumed() {
    for slow in ["the model", "a command"] {
        let world = TestWorld::new();
        let (first, kind) = match slow {
            "the model" => (format!("{}{ENDLESS_DELAY}", finish("Never")), "model_asked"),
            _ => {
                let command = "{command: 'echo 0 >> log; sleep 31536077', timeout: 600}";
                (turn(&[("shell", command)]), "process_started")
            }
        };
        let turns = [
            first,
            turn(&[("shell", "{command: 'echo 1 >> log'}")]),
            finish("Done"),
        ];
        world.define_llm_actor("coder", &turns.concat(), "");
        world.define_llm_job("builtin/direct", "local/coder", "");
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let child = world.start(&["plan", "execute", &plan, "--format", "json"]);
        follower.wait_for(kind);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let run =
            crate::world::AgentsRun::from_output(child.wait_with_output().unwrap()).exits(130);
        run.prints(&format!("agents plan resume {plan}"));
        assert!(
            !crate::event_follower::is_process_running("31536077"),
            "{slow}"
        );
        assert_eq!(
            world.events_of_kind(&plan, "run_released").len(),
            1,
            "{slow}"
        );
        if slow == "a command" {
            // The model's answer is kept, so a resume would run the endless command again.
            continue;
        }
        world
            .resume(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n", "{slow}");
        assert_eq!(world.model_call_states(&plan)[0], "interrupted", "{slow}");
    }
}

#[test]
fn an_interrupted_command_is_repeated_from_its_start() {
    let world = TestWorld::new();
    let plan = create_held_plan(&world, &[finish("Done")]);
    let mut follower = Follower::start(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    crate::world::AgentsRun::from_output(child.wait_with_output().unwrap()).exits(130);
    let next = world.start(&["plan", "resume", &plan]);
    follower.wait_for("process_started");
    release_held_call(&world, &plan);
    crate::world::AgentsRun::from_output(next.wait_with_output().unwrap()).succeeded();
    assert_eq!(world.state(&plan), "execute/complete");
    assert_eq!(world.model_call_states(&plan), ["answered", "answered"]);
}

#[test]
fn concurrent_prompts_are_delivered_once_in_order() {
    let world = TestWorld::new();
    let look = |number: u32| {
        let input = format!("{{pattern: 'x{number}'}}");
        turn(&[("file-search", input.as_str())])
    };
    let turns: Vec<String> = (0..30).map(look).chain([finish("Done")]).collect();
    let plan = create_held_plan(&world, &turns);
    let mut follower = Follower::start(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    let prompts: Vec<std::process::Child> = (0..12)
        .map(|number| {
            let words = format!("Word number {number} of many");
            world.start(&["plan", "prompt", &plan, &words, "--format", "json"])
        })
        .collect();
    release_held_call(&world, &plan);
    crate::world::AgentsRun::from_output(child.wait_with_output().unwrap()).succeeded();
    let mut said: Vec<(u64, String)> = Vec::new();
    for prompt in prompts {
        let run = crate::world::AgentsRun::from_output(prompt.wait_with_output().unwrap());
        // A prompt that arrives after the end is refused, never reported as delivered.
        if run.code == Some(0) {
            let data = run.data();
            let text = data["guidance"].as_str().unwrap().to_owned();
            said.push((data["sequence"].as_u64().unwrap(), text));
        }
    }
    said.sort();
    let model_calls = world.model_calls(&plan);
    let last = messages_text(model_calls.last().unwrap());
    let places: Vec<usize> = said
        .iter()
        .filter_map(|(_, words)| {
            assert!(last.matches(words.as_str()).count() <= 1, "{words}: {last}");
            last.find(words.as_str())
        })
        .collect();
    assert!(places.is_sorted(), "{said:?}: {last}");
    let taken = world.events_of_kind(&plan, "message_taken").into_iter();
    let taken: usize = taken
        .map(|it| it["payload"]["messages"].as_array().unwrap().len())
        .sum();
    assert_eq!(taken, places.len(), "what was taken was heard");
}

#[test]
fn an_actor_change_before_the_first_answer_keeps_prompts() {
    let world = TestWorld::new();
    let limited = "  - fault: {kind: rate_limit, retry_after: 3600}\n";
    let turns = [limited.to_owned(), finish("Done")].concat();
    world.define_llm_actor("coder", &turns, "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .run_json(&["plan", "prompt", &plan, "Mind the gap"])
        .succeeded();
    world.execute(&plan).exits(75);
    let keys = "provider: scripted\nmodel: coder-script.yaml\nsystem_prompt: You are a poet\n";
    world.define_llm_actor_with("coder", keys);
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    assert_eq!(world.model_call_states(&plan), ["failed", "answered"]);
    assert_eq!(count_in_request(&model_calls[0], "You are a poet"), 0);
    assert_eq!(count_in_request(&model_calls[1], "You are a poet"), 1);
    assert_eq!(
        count_in_request(&model_calls[1], "Message from the user: Mind the gap"),
        1
    );
}
