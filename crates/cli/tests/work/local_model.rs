//! A plan with a real, small model: its answers are unpredictable, but the plan must end in a valid
//! state.

use crate::world::TestWorld;

#[expect(
    clippy::disallowed_methods,
    reason = "the runner of the tests says where the server is"
)]
fn model_server_url() -> String {
    match std::env::var("CLEVERAGENTS_TEST_MODEL") {
        Ok(url) => url,
        Err(_) => panic!("no server with a model: run the tests with `cargo xtask test`"),
    }
}

/// Uses the server's model, few tools and short answers.
const ACTOR: &str = "\
model: local
temperature: 0
max_tokens: 60
tools: [builtin/file-write]
";

const ACTION: &str = "\
name: local/greet
description: Write a greeting into hello.txt
definition_of_done: hello.txt says hello
strategy_actor: builtin/direct
execution_actor: local/small
budget: {tokens: 9000}
";

#[test]
fn a_run_with_a_real_model_ends_in_a_valid_state() {
    let world = TestWorld::empty();
    let url = format!("{}/v1", model_server_url());
    world
        .run(&["config", "set", "provider.llamacpp.base-url", &url])
        .succeeded();
    assert_ends_in_valid_state(&world, "llamacpp");
}

#[test]
fn a_run_over_the_anthropic_api_ends_in_a_valid_state() {
    let world = TestWorld::empty();
    world.write(
        "home/.cleveragents/models.yaml",
        &format!(
            "providers: [{{name: here, kind: anthropic, base_url: '{}'}}]\n\
             models: [{{model: here/local, context_tokens: 8192, answer_tokens: 60}}]\n",
            model_server_url()
        ),
    );
    assert_ends_in_valid_state(&world, "here");
}

/// Asserts that a plan with this provider's model ends in a valid state.
fn assert_ends_in_valid_state(world: &TestWorld, provider: &str) {
    world.create_repository("shop");
    world.define_llm_actor_with("small", &format!("provider: {provider}\n{ACTOR}"));
    world.write("home/greet.yaml", ACTION);
    world
        .run(&["action", "create", "--config", "greet.yaml"])
        .succeeded();
    let path = world.path("shop").display().to_string();
    let run = world.run_json(&["run", "local/greet", "--path", &path]);
    // Complete and waiting for approval, failed with a reason, or out of budget.
    let code = run.code.unwrap();
    assert!([1, 5, 6].contains(&code), "{run:?}");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    let state = world.state(&plan);
    let legal = ["execute/complete", "execute/errored", "execute/queued"];
    assert!(legal.contains(&state.as_str()), "{state}: {run:?}");
    let model_calls = world.events_of_kind(&plan, "model_asked").len();
    let answered = world.events_of_kind(&plan, "model_answered");
    let failed = world.events_of_kind(&plan, "model_failed").len();
    assert!(!answered.is_empty(), "{run:?}");
    assert_eq!(
        model_calls,
        answered.len() + failed,
        "each question has an end"
    );
    for answer in &answered {
        let usage = &answer["payload"]["usage"];
        assert!(usage["input_tokens"].as_u64().unwrap() > 0, "{answer}");
        assert!(usage["output_tokens"].as_u64().unwrap() > 0, "{answer}");
        let calls = answer["payload"]["tool_calls"].as_array().unwrap();
        // A tool call was required; one that was cut off does not count.
        let cut_off = answer["payload"]["finish"] == "length";
        assert!(cut_off || !calls.is_empty(), "{answer}");
    }
    let invoked = world.events_of_kind(&plan, "tool_invoked").len();
    let ended = world.events_of_kind(&plan, "tool_completed").len()
        + world.events_of_kind(&plan, "tool_errored").len();
    assert_eq!(invoked, ended, "each call has an end");
    if state != "execute/complete" {
        assert!(!world.errors(&plan).is_empty(), "why is on record");
    }
    world.run(&["plan", "verify", &plan]).succeeded();
    assert_eq!(world.commits("shop"), 1, "nothing was applied");
}
