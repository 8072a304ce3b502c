//! A plan with a real, small model: what it says nobody can foresee, that it ends well-kept is
//! certain.

use crate::world::World;

#[expect(
    clippy::disallowed_methods,
    reason = "the runner of the tests says where the server is"
)]
fn address() -> String {
    match std::env::var("CLEVERAGENTS_TEST_MODEL") {
        Ok(url) => url,
        Err(_) => panic!("no server with a model: run the tests with `cargo xtask test`"),
    }
}

/// Works with the server's model, few tools and short answers.
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
fn a_run_with_a_real_model_comes_to_a_legal_end_and_everything_is_on_record() {
    let world = World::empty();
    let url = format!("{}/v1", address());
    world
        .run(&["config", "set", "provider.llamacpp.base-url", &url])
        .succeeded();
    comes_to_a_legal_end(&world, "llamacpp");
}

#[test]
fn the_other_way_to_speak_with_models_comes_to_a_legal_end_too() {
    let world = World::empty();
    world.write(
        "home/.cleveragents/models.yaml",
        &format!(
            "providers: [{{name: here, kind: anthropic, base_url: '{}'}}]\n\
             models: [{{model: here/local, context_tokens: 8192, answer_tokens: 60}}]\n",
            address()
        ),
    );
    comes_to_a_legal_end(&world, "here");
}

/// Whatever this provider's model says.
fn comes_to_a_legal_end(world: &World, provider: &str) {
    world.repository("shop");
    world.thinker_of("small", &format!("provider: {provider}\n{ACTOR}"));
    world.write("home/greet.yaml", ACTION);
    world
        .run(&["action", "create", "--config", "greet.yaml"])
        .succeeded();
    let path = world.path("shop").display().to_string();
    let run = world.ask(&["run", "local/greet", "--path", &path]);
    // Done and waiting for a yes, given up with its reason, or at the end of its budget.
    let code = run.code.unwrap();
    assert!([1, 5, 6].contains(&code), "{run:?}");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    let stands = world.state(&plan);
    let legal = ["execute/complete", "execute/errored", "execute/queued"];
    assert!(legal.contains(&stands.as_str()), "{stands}: {run:?}");
    let asked = world.told(&plan, "model_asked").len();
    let answered = world.told(&plan, "model_answered");
    let failed = world.told(&plan, "model_failed").len();
    assert!(!answered.is_empty(), "{run:?}");
    assert_eq!(asked, answered.len() + failed, "each question has an end");
    for answer in &answered {
        let usage = &answer["payload"]["usage"];
        assert!(usage["input_tokens"].as_u64().unwrap() > 0, "{answer}");
        assert!(usage["output_tokens"].as_u64().unwrap() > 0, "{answer}");
        let calls = answer["payload"]["tool_calls"].as_array().unwrap();
        // A call was required; one that did not fit into the answer is none.
        let cut_off = answer["payload"]["finish"] == "length";
        assert!(cut_off || !calls.is_empty(), "{answer}");
    }
    let invoked = world.told(&plan, "tool_invoked").len();
    let ended = world.told(&plan, "tool_completed").len() + world.told(&plan, "tool_errored").len();
    assert_eq!(invoked, ended, "each call has an end");
    if stands != "execute/complete" {
        assert!(!world.errors(&plan).is_empty(), "why is on record");
    }
    world.run(&["plan", "verify", &plan]).succeeded();
    assert_eq!(world.commits("shop"), 1, "nothing was applied");
}
