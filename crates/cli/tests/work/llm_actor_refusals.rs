//! Unusable answers in every phase: corrected twice, then recorded as an error that ends the phase.
//! Also calls that are skipped because another call of the answer takes precedence.

use serde_json::Value;

use crate::models::{assert_no_repeated_calls, finish, messages_text, strategy, turn};
use crate::world::{TRUSTED, TestWorld};

/// Unusable answers, and the message to the model about each.
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

/// Returns a final call that is invalid in this phase.
fn invalid_end_turn(phase: &str) -> (String, &'static str) {
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

/// The turns before and after the unusable answers, and the resulting state.
struct RefusalTrial {
    before: Vec<String>,
    after: Vec<String>,
    final_state: &'static str,
}

fn refusal_trial(phase: &str) -> RefusalTrial {
    let work = || {
        vec![
            turn(&[("shell", "{command: 'echo 1 >> log'}")]),
            finish("Done"),
        ]
    };
    let repair = || {
        vec![
            turn(&[("shell", "{command: 'echo 2 >> log'}")]),
            finish("Mended"),
        ]
    };
    let plan = vec![strategy(&["One"])];
    let (before, after, ends) = match phase {
        "strategize" => (
            Vec::new(),
            [plan, work(), repair()].concat(),
            "strategize/errored",
        ),
        _ => (plan, [work(), repair()].concat(), "execute/errored"),
    };
    RefusalTrial {
        before,
        after,
        final_state: ends,
    }
}

#[track_caller]
fn assert_stopped_after_two_repairs(world: &TestWorld, phase: &str) {
    let (end, words) = invalid_end_turn(phase);
    let ends = [(end.as_str(), words)];
    for (bad, words) in UNUSABLE.into_iter().chain(ends) {
        let RefusalTrial {
            before,
            after,
            final_state: ends,
        } = refusal_trial(phase);
        // After a resume the model gives one more unusable answer, and then a usable one.
        let turns = [before.concat(), bad.repeat(4), after.concat()].concat();
        world.define_llm_actor("coder", &turns, "");
        let check = "checks: [{run: 'test $(wc -l < log) -ge 2'}]\n";
        world.define_llm_job("local/coder", "local/coder", check);
        let plan = world.create_plan(TRUSTED);
        let trial = format!("{phase}: {bad}");
        let run = world.execute(&plan);
        assert_eq!(run.code, Some(1), "{trial}: {run:?}");
        let run = run.reports_state(ends);
        run.prints("3 times in a row")
            .prints(&format!("agents plan errors {plan}"));
        let model_calls = world.model_calls(&plan);
        assert_eq!(model_calls.len(), before.len() + 3, "{trial}");
        let follow_ups = model_calls[before.len()..].iter();
        let message_counts: Vec<usize> = follow_ups
            .map(|it| messages_text(it).matches(words).count())
            .collect();
        assert!(
            message_counts[0] < message_counts[1] && message_counts[1] < message_counts[2],
            "{trial}: {message_counts:?}"
        );
        let errors = world.errors(&plan);
        let last = |it: &&String| it.contains("3 times in a row");
        assert_eq!(errors.iter().filter(last).count(), 1, "{trial}: {errors:?}");
        assert!(
            world
                .error_kinds(&plan)
                .contains(&"model_output".to_owned())
        );

        // The refusal is not permanent.
        let run = world.resume(&plan);
        assert_eq!(run.code, Some(0), "{trial}: {run:?}");
        run.reports_state("execute/complete");
        let model_calls = world.model_calls(&plan);
        assert_eq!(model_calls.len(), before.len() + 4 + after.len(), "{trial}");
        assert_no_repeated_calls(&model_calls);
        let files = world.sandbox_files(&plan);
        assert_eq!(files["log"], "0 1\n2\n", "{trial}");
        assert_eq!(
            world.events_of_kind(&plan, "strategy_stored").len(),
            1,
            "{trial}"
        );
    }
}

#[test]
fn a_strategy_actor_may_repair_its_answers_twice() {
    assert_stopped_after_two_repairs(&TestWorld::new(), "strategize");
}

#[test]
fn an_execution_actor_may_repair_its_answers_twice() {
    assert_stopped_after_two_repairs(&TestWorld::new(), "execute");
}

#[test]
fn a_repair_has_three_attempts_with_two_corrections() {
    let world = TestWorld::new();
    for (bad, _) in UNUSABLE {
        let RefusalTrial { before, after, .. } = refusal_trial("execute");
        let [work, finish, repair] = [0..1, 1..2, 2..4].map(|it| after[it].concat());
        // Each of the three attempts fails after three answers.
        let turns = [before.concat(), work, finish, bad.repeat(9), repair].concat();
        world.define_llm_actor("coder", &turns, "");
        let check = "checks: [{run: 'test $(wc -l < log) -ge 2'}]\n";
        world.define_llm_job("local/coder", "local/coder", check);
        let plan = world.create_plan(TRUSTED);
        let run = world.execute(&plan);
        assert_eq!(run.code, Some(7), "{bad}: {run:?}");
        run.reports_state("execute/constrained");
        assert_eq!(world.model_calls(&plan).len(), 3 + 9, "{bad}");
        assert_eq!(
            world.events_of_kind(&plan, "validations_completed").len(),
            4,
            "{bad}"
        );
        let errors = world.json_data(&["plan", "errors", &plan]);
        let errors = errors["errors"].as_array().unwrap().iter();
        let given_up = errors.filter(|it| it.to_string().contains("3 times in a row"));
        let given_up: u64 = given_up.map(|it| it["occurrences"].as_u64().unwrap()).sum();
        assert_eq!(given_up, 3, "{bad}");
        // A resume allows new attempts.
        world
            .resume(&plan)
            .succeeded()
            .reports_state("execute/complete");
        let model_calls = world.model_calls(&plan);
        assert_no_repeated_calls(&model_calls);
        assert_eq!(model_calls.len(), 3 + 9 + 2, "{bad}");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n", "{bad}");
    }
}

/// Returns the results of the first answer's calls, as the second request has them.
#[track_caller]
fn tool_results(model_calls: &[Value]) -> Vec<String> {
    let messages = model_calls[1]["messages"].as_array().unwrap().iter();
    let results = messages.filter(|it| it["role"] == "tool");
    results
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

const SKIPPED_MESSAGE: &str = "Not made: the user was asked first";

#[test]
fn calls_after_a_question_wait_for_its_answer() {
    let world = TestWorld::new();
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
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    for word in ["execute", "resume", "execute"] {
        // Without an answer, further commands do nothing.
        let run = world.run_json(&["plan", word, &plan]).exits(5);
        run.reports_state("execute/queued").prints("Which colour?");
        world.assert_waiting_for(&plan, "answer");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n", "{word}");
        assert_eq!(
            world.events_of_kind(&plan, "tool_invoked").len(),
            2,
            "{word}"
        );
        assert_eq!(world.model_calls(&plan).len(), 1, "{word}");
    }
    world
        .run_json(&["plan", "prompt", &plan, "Blue"])
        .succeeded();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["log"], "0 1\nblue\n");
    assert_eq!(files.get("new"), None);
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 3);
    let results = tool_results(&model_calls);
    assert_eq!(results.len(), 7, "{results:?}");
    let put_off: Vec<bool> = results
        .iter()
        .map(|it| it.contains(SKIPPED_MESSAGE))
        .collect();
    assert_eq!(put_off, [false, false, true, true, true, true, true]);
    assert_eq!(
        messages_text(&model_calls[1])
            .matches("Message from the user: Blue")
            .count(),
        1
    );
    assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 0);
}

#[test]
fn a_strategy_after_a_question_waits_for_its_answer() {
    let world = TestWorld::new();
    let hasty = "{summary: Red, confidence: 1, steps: [{title: Paint it red}]}";
    let turns = [
        turn(&[
            ("ask-user", "{question: 'Which colour?'}"),
            ("submit-strategy", hasty),
        ]),
        strategy(&["Paint it blue"]),
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
    assert_eq!(world.events_of_kind(&plan, "strategy_stored").len(), 0);
    world
        .run_json(&["plan", "prompt", &plan, "Blue"])
        .succeeded();
    let run = world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let steps = run.data()["strategy_summary"]["steps"].clone();
    assert_eq!(steps[0]["title"], "Paint it blue", "{steps}");
    assert!(tool_results(&world.model_calls(&plan))[1].contains(SKIPPED_MESSAGE));
}
