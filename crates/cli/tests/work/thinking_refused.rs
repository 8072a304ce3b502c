//! Answers that cannot be used, wherever they are given: mended twice, then an error on record and
//! an end; and calls that are not made because something else comes first.

use serde_json::Value;

use crate::models::{finish, nothing_is_asked_twice, strategy, text_of, turn};
use crate::world::{ALONE, World};

/// Answers that nobody can use, and what the model is told about them.
const UNUSABLE: [(&str, &str); 5] = [
    (
        "  - tool_calls: [{tool: builtin/nothing, input: {}}]\n",
        "there is no tool `builtin/nothing`",
    ),
    (
        "  - tool_calls: [{tool: builtin/file-read, input: {path: 7}}]\n",
        "path",
    ),
    (
        "  - tool_calls: [{tool: builtin/file-read, arguments: '{\"path\": '}]\n",
        "not JSON",
    ),
    (
        "  - tool_calls: [{tool: builtin/ask-user, input: {}}, {tool: x, input: {}}]\n",
        "question",
    ),
    ("  - text: I shall begin soon.\n", "called no tool"),
];

/// An end that cannot be used for what is being done.
fn bad_end(phase: &str) -> (String, &'static str) {
    match phase {
        "strategize" => (
            turn(&[(
                "submit-strategy",
                "{summary: None, confidence: 0.5, steps: []}",
            )]),
            "steps",
        ),
        _ => (turn(&[("finish", "{}")]), "summary"),
    }
}

/// What a script says before and after the answers that cannot be used, and where those end.
struct Trial {
    before: Vec<String>,
    after: Vec<String>,
    ends: &'static str,
}

fn trial(phase: &str) -> Trial {
    let work = || {
        vec![
            turn(&[("shell", "{command: 'echo 1 >> log'}")]),
            finish("Done"),
        ]
    };
    let mend = || {
        vec![
            turn(&[("shell", "{command: 'echo 2 >> log'}")]),
            finish("Mended"),
        ]
    };
    let plan = vec![strategy(&["One"])];
    let (before, after, ends) = match phase {
        "strategize" => (
            Vec::new(),
            [plan, work(), mend()].concat(),
            "strategize/errored",
        ),
        _ => (plan, [work(), mend()].concat(), "execute/errored"),
    };
    Trial {
        before,
        after,
        ends,
    }
}

#[track_caller]
fn mended_twice_and_then_over(world: &World, phase: &str) {
    let (end, words) = bad_end(phase);
    let ends = [(end.as_str(), words)];
    for (bad, words) in UNUSABLE.into_iter().chain(ends) {
        let Trial {
            before,
            after,
            ends,
        } = trial(phase);
        // Whoever goes on is given one more answer of the kind, and then one that can be used.
        let turns = [before.concat(), bad.repeat(4), after.concat()].concat();
        world.thinker("coder", &turns, "");
        let check = "checks: [{run: 'test $(wc -l < log) -ge 2'}]\n";
        world.thought_job("local/coder", "local/coder", check);
        let plan = world.plan(ALONE);
        let trial = format!("{phase}: {bad}");
        let run = world.execute(&plan);
        assert_eq!(run.code, Some(1), "{trial}: {run:?}");
        let run = run.stands(ends);
        run.says("3 times in a row")
            .says(&format!("agents plan errors {plan}"));
        let asked = world.asked(&plan);
        assert_eq!(asked.len(), before.len() + 3, "{trial}");
        let told = asked[before.len()..].iter();
        let told: Vec<usize> = told.map(|it| text_of(it).matches(words).count()).collect();
        assert!(told[0] < told[1] && told[1] < told[2], "{trial}: {told:?}");
        let errors = world.errors(&plan);
        let last = |it: &&String| it.contains("3 times in a row");
        assert_eq!(errors.iter().filter(last).count(), 1, "{trial}: {errors:?}");
        assert!(
            world
                .error_kinds(&plan)
                .contains(&"model_output".to_owned())
        );

        // What was refused is not refused for ever.
        let run = world.resume(&plan);
        assert_eq!(run.code, Some(0), "{trial}: {run:?}");
        run.stands("execute/complete");
        let asked = world.asked(&plan);
        assert_eq!(asked.len(), before.len() + 4 + after.len(), "{trial}");
        nothing_is_asked_twice(&asked);
        let files = world.sandbox_files(&plan);
        assert_eq!(files["log"], "0 1\n2\n", "{trial}");
        assert_eq!(world.told(&plan, "strategy_stored").len(), 1, "{trial}");
    }
}

#[test]
fn who_plans_may_mend_its_answers_twice() {
    mended_twice_and_then_over(&World::new(), "strategize");
}

#[test]
fn who_works_may_mend_its_answers_twice() {
    mended_twice_and_then_over(&World::new(), "execute");
}

#[test]
fn who_mends_may_mend_its_answers_twice_and_try_three_times() {
    let world = World::new();
    for (bad, _) in UNUSABLE {
        let Trial { before, after, .. } = trial("execute");
        let [work, finish, mend] = [0..1, 1..2, 2..4].map(|it| after[it].concat());
        // Each of the three attempts is given up after as many answers.
        let turns = [before.concat(), work, finish, bad.repeat(9), mend].concat();
        world.thinker("coder", &turns, "");
        let check = "checks: [{run: 'test $(wc -l < log) -ge 2'}]\n";
        world.thought_job("local/coder", "local/coder", check);
        let plan = world.plan(ALONE);
        let run = world.execute(&plan);
        assert_eq!(run.code, Some(7), "{bad}: {run:?}");
        run.stands("execute/constrained");
        assert_eq!(world.asked(&plan).len(), 3 + 9, "{bad}");
        assert_eq!(world.told(&plan, "validations_completed").len(), 4, "{bad}");
        let errors = world.data(&["plan", "errors", &plan]);
        let errors = errors["errors"].as_array().unwrap().iter();
        let given_up = errors.filter(|it| it.to_string().contains("3 times in a row"));
        let given_up: u64 = given_up.map(|it| it["occurrences"].as_u64().unwrap()).sum();
        assert_eq!(given_up, 3, "{bad}");
        // Whoever goes on lets it be tried anew.
        world.resume(&plan).succeeded().stands("execute/complete");
        let asked = world.asked(&plan);
        nothing_is_asked_twice(&asked);
        assert_eq!(asked.len(), 3 + 9 + 2, "{bad}");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n", "{bad}");
    }
}

/// What each call of the first answer gave, as the second request tells it.
#[track_caller]
fn told(asked: &[Value]) -> Vec<String> {
    let messages = asked[1]["messages"].as_array().unwrap().iter();
    let results = messages.filter(|it| it["role"] == "tool");
    results
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

const ASKED_FIRST: &str = "Not made: the user was asked first";

#[test]
fn what_follows_a_question_is_not_done_before_its_answer() {
    let world = World::new();
    let turns = [
        turn(&[
            ("shell", "{command: 'echo 1 >> log'}"),
            ("ask-user", "{question: 'Which colour?'}"),
            ("shell", "{command: 'echo red >> log'}"),
            ("file-read", "{path: a}"),
            ("file-write", "{path: new, content: red}"),
            ("ask-user", "{question: 'Are you sure?'}"),
            ("finish", "{summary: Painted red}"),
        ]),
        turn(&[("shell", "{command: 'echo blue >> log'}")]),
        finish("Painted blue"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    for word in ["execute", "resume", "execute"] {
        // Whoever asks for more without an answer gets nothing done.
        let run = world.ask(&["plan", word, &plan]).exits(5);
        run.stands("execute/queued").says("Which colour?");
        world.waits_for(&plan, "answer");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n", "{word}");
        assert_eq!(world.told(&plan, "tool_invoked").len(), 2, "{word}");
        assert_eq!(world.asked(&plan).len(), 1, "{word}");
    }
    world.ask(&["plan", "prompt", &plan, "Blue"]).succeeded();
    world.resume(&plan).succeeded().stands("execute/complete");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["log"], "0 1\nblue\n");
    assert_eq!(files.get("new"), None);
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 3);
    let told = told(&asked);
    assert_eq!(told.len(), 7, "{told:?}");
    let put_off: Vec<bool> = told.iter().map(|it| it.contains(ASKED_FIRST)).collect();
    assert_eq!(put_off, [false, false, true, true, true, true, true]);
    assert_eq!(text_of(&asked[1]).matches("A human says: Blue").count(), 1);
    assert_eq!(world.told(&plan, "tool_refused").len(), 0);
}

#[test]
fn a_strategy_that_follows_a_question_is_not_handed_in_before_its_answer() {
    let world = World::new();
    let hasty = "{summary: Red, confidence: 1, steps: [{title: Paint it red}]}";
    let turns = [
        turn(&[
            ("ask-user", "{question: 'Which colour?'}"),
            ("submit-strategy", hasty),
        ]),
        strategy(&["Paint it blue"]),
        finish("Painted"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("local/coder", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(5).stands("strategize/queued");
    world.waits_for(&plan, "answer");
    assert_eq!(world.told(&plan, "strategy_stored").len(), 0);
    world.ask(&["plan", "prompt", &plan, "Blue"]).succeeded();
    let run = world.resume(&plan).succeeded().stands("execute/complete");
    let steps = run.data()["strategy_summary"]["steps"].clone();
    assert_eq!(steps[0]["title"], "Paint it blue", "{steps}");
    assert!(told(&world.asked(&plan))[1].contains(ASKED_FIRST));
}
