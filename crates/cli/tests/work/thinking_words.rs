//! What humans and models say to each other while a plan goes on: questions that park it, and
//! words that are heard once, whoever is killed meanwhile.

use rustix::process::{Pid, Signal, kill_process};

use crate::following::Follower;
use crate::models::{finish, nothing_is_asked_twice, text_of, turn};
use crate::world::{ALONE, World};

/// So long that nobody waits for it.
const NEVER: &str = "    delay_ms: 80000000\n";

/// How often a text is in what the model was told.
fn told(asked: &serde_json::Value, words: &str) -> usize {
    text_of(asked).matches(words).count()
}

#[test]
fn a_question_parks_the_plan_and_its_answer_is_heard() {
    let world = World::new();
    let turns = [
        turn(&[
            ("shell", "{command: 'echo 1 >> log'}"),
            ("ask-user", "{question: 'Which colour?'}"),
        ]),
        turn(&[("shell", "{command: 'echo 2 >> log'}")]),
        finish("Painted"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(5).stands("execute/queued");
    let run = run.says("Which colour?");
    run.says(&format!("agents plan prompt {plan}"));
    world.waits_for(&plan, "answer");
    assert_eq!(world.asked(&plan).len(), 1);

    // Without an answer nothing goes on, and nobody waits for one.
    world.resume(&plan).exits(5).stands("execute/queued");
    world.waits_for(&plan, "answer");
    assert_eq!(world.asked(&plan).len(), 1, "nothing is asked meanwhile");

    world
        .ask(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    world.resume(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 3);
    assert_eq!(told(&asked[0], "A light blue"), 0);
    assert_eq!(told(&asked[1], "A light blue"), 1);
    assert_eq!(told(&asked[2], "A light blue"), 1);
    assert_eq!(world.told(&plan, "message_taken").len(), 1);
}

#[test]
fn a_question_of_who_plans_parks_the_plan_too() {
    let world = World::new();
    let turns = [
        turn(&[("ask-user", "{question: 'Which colour?'}")]),
        crate::models::strategy(&["Paint"]),
        finish("Painted"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("local/coder", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(5).stands("strategize/queued");
    world.waits_for(&plan, "answer");
    world
        .ask(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    world.resume(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    assert_eq!(told(&asked[1], "A human says: A light blue"), 1);
    // Who works knows it as well.
    assert!(told(&asked[2], "A light blue") > 0, "{}", asked[2]);
}

/// A plan whose first call ends only when the test lets it.
fn held(world: &World, turns: &[String]) -> String {
    let hold = "{command: 'until test -e go; do sleep 0.05; done', timeout: 600}";
    let turns = [turn(&[("shell", hold)]), turns.concat()].concat();
    world.thinker("coder", &turns, "");
    world.thought_job("builtin/direct", "local/coder", "");
    world.plan(ALONE)
}

fn let_go(world: &World, plan: &str) {
    let tree = world.sandbox(plan);
    std::fs::File::create(tree.join("go")).unwrap();
}

#[test]
fn what_is_said_to_a_running_plan_is_heard_at_the_next_turn_and_once() {
    let world = World::new();
    let plan = held(&world, &[turn(&[("file-list", "{}")]), finish("Done")]);
    let mut follower = Follower::of(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    for words in ["Mind the gap", "Take your time"] {
        let data = world.data(&["plan", "prompt", &plan, words]);
        assert_eq!(data["delivered_to"], "owner", "{data}");
    }
    let_go(&world, &plan);
    crate::world::Run::of(child.wait_with_output().unwrap()).succeeded();
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 3);
    for words in ["Mind the gap", "Take your time"] {
        let counts: Vec<usize> = asked.iter().map(|it| told(it, words)).collect();
        assert_eq!(counts, [0, 1, 1], "{words}");
    }
    assert_eq!(world.told(&plan, "message_taken").len(), 1);
}

#[test]
fn what_was_said_is_heard_once_whenever_the_one_who_heard_it_is_killed() {
    for moment in [
        "before it is heard",
        "while the model thinks about it",
        "after the answer",
    ] {
        let world = World::new();
        let slow = |turn: String, at: &str| match moment == at {
            true => format!("{turn}{NEVER}"),
            false => turn,
        };
        let turns = [
            slow(
                turn(&[("file-list", "{}")]),
                "while the model thinks about it",
            ),
            slow(turn(&[("file-read", "{path: a}")]), "after the answer"),
            finish("Done"),
        ];
        let plan = held(&world, &turns);
        let mut follower = Follower::of(&world, &plan);
        let mut child = world.start(&["plan", "execute", &plan]);
        follower.wait_for("process_started");
        world
            .ask(&["plan", "prompt", &plan, "Mind the gap"])
            .succeeded();
        if moment != "before it is heard" {
            let_go(&world, &plan);
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
            let_go(&world, &plan);
            assert!(next.wait().unwrap().success());
        } else {
            world.resume(&plan).succeeded();
        }
        assert_eq!(world.state(&plan), "execute/complete", "{moment}");
        let asked = world.asked(&plan);
        let last = asked.last().unwrap();
        assert_eq!(told(last, "Mind the gap"), 1, "{moment}: {last}");
        assert_eq!(told(last, "A human says: Mind the gap"), 1, "{moment}");
        nothing_is_asked_twice(&asked);
        assert!(
            asked.iter().all(|it| told(it, "Mind the gap") <= 1),
            "{moment}"
        );
        assert_eq!(world.told(&plan, "message_taken").len(), 1, "{moment}");
    }
}

#[test]
fn an_answer_that_a_killed_worker_had_heard_is_not_asked_for_again() {
    let world = World::new();
    let turns = [
        turn(&[("ask-user", "{question: 'Which colour?'}")]),
        format!("{}{NEVER}", finish("Never")),
        finish("Painted"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(5);
    world
        .ask(&["plan", "prompt", &plan, "A light blue"])
        .succeeded();
    let mut follower = Follower::of(&world, &plan);
    let mut child = world.start(&["plan", "resume", &plan]);
    follower.wait_for("message_taken");
    child.kill().unwrap();
    child.wait().unwrap();
    world.resume(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    assert_eq!(
        world.ends_of_asking(&plan),
        ["answered", "interrupted", "answered"]
    );
    assert_eq!(told(&asked[2], "A light blue"), 1, "{}", asked[2]);
    nothing_is_asked_twice(&asked);
}

#[test]
fn an_interrupt_stops_where_it_can_be_gone_on_with() {
    for slow in ["the model", "a command"] {
        let world = World::new();
        let (first, kind) = match slow {
            "the model" => (format!("{}{NEVER}", finish("Never")), "model_asked"),
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
        world.thinker("coder", &turns.concat(), "");
        world.thought_job("builtin/direct", "local/coder", "");
        let plan = world.plan(ALONE);
        let mut follower = Follower::of(&world, &plan);
        let child = world.start(&["plan", "execute", &plan, "--format", "json"]);
        follower.wait_for(kind);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let run = crate::world::Run::of(child.wait_with_output().unwrap()).exits(130);
        run.says(&format!("agents plan resume {plan}"));
        assert!(!crate::following::runs("31536077"), "{slow}");
        assert_eq!(world.told(&plan, "run_released").len(), 1, "{slow}");
        if slow == "a command" {
            // The model's answer stands; the command is made again, in another way this time.
            continue;
        }
        world.resume(&plan).succeeded().stands("execute/complete");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n", "{slow}");
        assert_eq!(world.ends_of_asking(&plan)[0], "interrupted", "{slow}");
    }
}

#[test]
fn a_command_that_was_interrupted_is_made_again_from_where_it_began() {
    let world = World::new();
    let plan = held(&world, &[finish("Done")]);
    let mut follower = Follower::of(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    crate::world::Run::of(child.wait_with_output().unwrap()).exits(130);
    let next = world.start(&["plan", "resume", &plan]);
    follower.wait_for("process_started");
    let_go(&world, &plan);
    crate::world::Run::of(next.wait_with_output().unwrap()).succeeded();
    assert_eq!(world.state(&plan), "execute/complete");
    assert_eq!(world.ends_of_asking(&plan), ["answered", "answered"]);
}

#[test]
fn however_many_speak_at_once_each_is_heard_once_and_in_order() {
    let world = World::new();
    let look = |number: u32| {
        let input = format!("{{pattern: 'x{number}'}}");
        turn(&[("file-search", input.as_str())])
    };
    let turns: Vec<String> = (0..30).map(look).chain([finish("Done")]).collect();
    let plan = held(&world, &turns);
    let mut follower = Follower::of(&world, &plan);
    let child = world.start(&["plan", "execute", &plan]);
    follower.wait_for("process_started");
    let prompts: Vec<std::process::Child> = (0..12)
        .map(|number| {
            let words = format!("Word number {number} of many");
            world.start(&["plan", "prompt", &plan, &words, "--format", "json"])
        })
        .collect();
    let_go(&world, &plan);
    crate::world::Run::of(child.wait_with_output().unwrap()).succeeded();
    let mut said: Vec<(u64, String)> = Vec::new();
    for prompt in prompts {
        let run = crate::world::Run::of(prompt.wait_with_output().unwrap());
        // One that came when all was done is refused; nobody is told that it was heard.
        if run.code == Some(0) {
            let data = run.data();
            let text = data["guidance"].as_str().unwrap().to_owned();
            said.push((data["sequence"].as_u64().unwrap(), text));
        }
    }
    said.sort();
    let asked = world.asked(&plan);
    let last = text_of(asked.last().unwrap());
    let places: Vec<usize> = said
        .iter()
        .filter_map(|(_, words)| {
            assert!(last.matches(words.as_str()).count() <= 1, "{words}: {last}");
            last.find(words.as_str())
        })
        .collect();
    assert!(places.is_sorted(), "{said:?}: {last}");
    let taken = world.told(&plan, "message_taken").into_iter();
    let taken: usize = taken
        .map(|it| it["payload"]["messages"].as_array().unwrap().len())
        .sum();
    assert_eq!(taken, places.len(), "what was taken was heard");
}

#[test]
fn before_the_first_answer_a_changed_actor_counts_and_what_was_said_is_kept() {
    let world = World::new();
    let limited = "  - fault: {kind: rate_limit, retry_after: 3600}\n";
    let turns = [limited.to_owned(), finish("Done")].concat();
    world.thinker("coder", &turns, "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world
        .ask(&["plan", "prompt", &plan, "Mind the gap"])
        .succeeded();
    world.execute(&plan).exits(75);
    let keys = "provider: scripted\nmodel: coder-script.yaml\nsystem_prompt: You are a poet\n";
    world.thinker_of("coder", keys);
    world.resume(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    assert_eq!(world.ends_of_asking(&plan), ["failed", "answered"]);
    assert_eq!(told(&asked[0], "You are a poet"), 0);
    assert_eq!(told(&asked[1], "You are a poet"), 1);
    assert_eq!(told(&asked[1], "A human says: Mind the gap"), 1);
}
