//! What models cost: the usage that providers report over HTTP, estimates where they report none,
//! and nothing for requests that they did not answer.

use serde_json::{Value, json};

use crate::event_follower::Follower;
use crate::llm_actor_http::{
    ChatServer, SILENCE, error_response, stream_chunk, stream_response, tool_call_response,
};
use crate::world::{AgentsRun, TRUSTED, TestWorld};

const SIZE: &str = "context_tokens: 200000, answer_tokens: 64000";

/// In dollars per million tokens: an answer of the greatest length costs 1.60, a usual one 0.20.
const INPUT_PRICE: f64 = 5.0;
const OUTPUT_PRICE: f64 = 25.0;

fn priced() -> String {
    format!("{SIZE}, price: {{input: {INPUT_PRICE}, output: {OUTPUT_PRICE}}}")
}

/// Ends the step; the server reports 50 tokens of input and 7 of output.
fn finish() -> String {
    tool_call_response("finish", r#"{"summary":"Done"}"#, "tool_calls")
}

const REPORTED_USD: f64 = (50.0 * INPUT_PRICE + 7.0 * OUTPUT_PRICE) / 1e6;

/// Calls a tool; the server reports this many tokens of output.
fn long_answer(output_tokens: u64) -> String {
    let function = json!({ "name": "builtin__file-list", "arguments": "{}" });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    stream_response(&[
        stream_chunk(&json!({ "role": "assistant", "tool_calls": [call] }), None),
        stream_chunk(&json!({}), Some("tool_calls")),
        json!({ "choices": [],
                "usage": { "prompt_tokens": 50, "completion_tokens": output_tokens } }),
    ])
}

/// The first words of an answer; then the connection is closed.
fn broken_answer() -> String {
    let words = stream_chunk(
        &json!({ "role": "assistant", "content": "First I shall look at the files" }),
        None,
    );
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         data: {words}\n\n"
    )
}

fn plan_of(world: &TestWorld, server: &ChatServer, model: &str, more: &str) -> String {
    server.register_model(world, model);
    world.define_llm_actor_with("coder", "provider: here\nmodel: large\n");
    world.define_llm_job("builtin/direct", "local/coder", more);
    world.create_plan(TRUSTED)
}

fn status_cost(world: &TestWorld, plan: &str) -> Value {
    world.json_data(&["plan", "status", plan])["cost"].clone()
}

fn status_text(world: &TestWorld, plan: &str) -> String {
    world
        .run(&["plan", "status", plan, "--format", "plain"])
        .succeeded()
        .stdout
}

fn dollars(cost: &Value, key: &str) -> f64 {
    cost[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {cost}"))
}

#[track_caller]
fn assert_dollars(cost: &Value, key: &str, wanted: f64) {
    let found = dollars(cost, key);
    assert!((found - wanted).abs() < 1e-9, "{key} of {cost}: {wanted}");
}

#[track_caller]
fn assert_reported_tokens(cost: &Value, input: u64, output: u64) {
    let wanted = json!({ "input": input, "output": output, "cached": 0 });
    assert_eq!(cost["tokens"], wanted, "{cost}");
}

/// Asserts that the attempts failed for this reason, cost nothing and used up no budget.
#[track_caller]
fn assert_failed_for_free(world: &TestWorld, plan: &str, error: &str, attempts: usize) {
    assert_eq!(world.error_kinds(plan), vec![error; attempts]);
    assert_eq!(world.model_call_states(plan), vec!["failed"; attempts]);
    let cost = status_cost(world, plan);
    assert_reported_tokens(&cost, 0, 0);
    for key in ["usd", "estimated_usd", "cost_so_far"] {
        assert_dollars(&cost, key, 0.0);
    }
    assert_eq!(cost["tokens_used"], 0, "{cost}");
    let text = status_text(world, plan);
    assert!(!text.contains("USD"), "{text}");
    let failed = world.events_of_kind(plan, "model_failed");
    assert!(!failed.is_empty());
    for event in failed {
        assert_eq!(
            event["payload"]["spent"],
            json!({ "tokens": 0, "usd": 0.0 })
        );
    }
    assert!(world.events_of_kind(plan, "budget_exceeded").is_empty());
}

/// A budget that pays for one usual answer.
const BUDGET: &str = "budget: {usd: 0.5}\n";

#[test]
fn a_refused_request_costs_nothing() {
    for (status, header, code, error) in [
        ("401 Unauthorized", "", 1, "auth"),
        ("400 Bad Request", "", 1, "model_output"),
        (
            "429 Too Many Requests",
            "retry-after: 3600\r\n",
            75,
            "rate_limit",
        ),
    ] {
        let world = TestWorld::new();
        let server = ChatServer::start(vec![error_response(status, header)]);
        let plan = plan_of(&world, &server, &priced(), BUDGET);
        world.execute(&plan).exits(code);
        assert_eq!(server.requests().len(), 1, "{status}");
        assert_failed_for_free(&world, &plan, error, 1);
    }
}

#[test]
fn a_failing_server_costs_nothing() {
    let world = TestWorld::new();
    let failures = vec![error_response("500 Internal Server Error", ""); 5];
    let server = ChatServer::start(failures);
    let plan = plan_of(&world, &server, &priced(), BUDGET);
    world.execute(&plan).exits(1);
    assert_eq!(server.requests().len(), 5);
    assert_failed_for_free(&world, &plan, "transient_network", 5);
}

#[test]
fn an_unreachable_provider_costs_nothing() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    // The server has no answers, so its port is closed.
    let server = ChatServer::start(Vec::new());
    server.register_model(&world, &priced());
    world
        .run(&["config", "set", "model.default", "here/large"])
        .succeeded();
    let path = world.path("shop").display().to_string();
    let words = ["run", "make it", "--path", &path, "--yes", "--max-usd", "1"];
    let run = world.run_json(&words).exits(1);
    let run = run.reports_state("strategize/errored");
    assert!(!run.stdout.contains("tokens, "), "{run:?}");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert_failed_for_free(&world, &plan, "transient_network", 5);
}

#[test]
fn a_broken_stream_is_charged_as_an_estimate() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![broken_answer(), finish()]);
    let plan = plan_of(&world, &server, &priced(), "");
    let run = world.execute(&plan).succeeded();
    assert_eq!(world.model_call_states(&plan), ["failed", "answered"]);
    let cost = status_cost(&world, &plan);
    assert_eq!(run.data()["cost"], cost, "the answer and the status agree");
    assert_reported_tokens(&cost, 50, 7);
    assert_dollars(&cost, "usd", REPORTED_USD);
    // The whole prompt and the words that arrived, much less than what was reserved.
    let reserved = world.model_calls(&plan)[0]["reserved"].clone();
    let estimate = dollars(&cost, "estimated_usd");
    assert!(estimate > 0.0, "{cost}");
    assert!(estimate < dollars(&reserved, "usd") / 2.0, "{cost}");
    let tokens = cost["estimated_tokens"].as_u64().unwrap();
    assert_eq!(cost["tokens_used"], 57 + tokens, "{cost}");
    assert_dollars(&cost, "cost_so_far", REPORTED_USD + estimate);
    let text = status_text(&world, &plan);
    assert!(text.contains("50 in, 7 out"), "{text}");
    let words = format!("may have cost {estimate:.4} USD (about {tokens} tokens)");
    assert!(text.contains(&words), "{text}");
}

#[test]
fn an_answer_without_usage_is_charged_as_an_estimate() {
    let world = TestWorld::new();
    let silent = finish().replace("\"usage\"", "\"other\"");
    let server = ChatServer::start(vec![silent]);
    let plan = plan_of(&world, &server, &priced(), "");
    world.execute(&plan).succeeded();
    let cost = status_cost(&world, &plan);
    assert_reported_tokens(&cost, 0, 0);
    assert_dollars(&cost, "usd", 0.0);
    let reserved = world.model_calls(&plan)[0]["reserved"].clone();
    let estimate = dollars(&cost, "estimated_usd");
    assert!(estimate > 0.0, "{cost}");
    assert!(estimate < dollars(&reserved, "usd") / 2.0, "{cost}");
    let text = status_text(&world, &plan);
    assert!(text.contains("may have cost"), "{text}");
    assert!(!text.contains("0.0000 USD"), "{text}");
}

#[test]
fn an_unknown_price_is_not_shown_as_zero() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    let strategy = r#"{"summary":"Make it","confidence":0.9,"steps":[{"title":"Write it"}]}"#;
    let write = r#"{"path":"new","content":"made\n"}"#;
    let server = ChatServer::start(vec![
        tool_call_response("submit-strategy", strategy, "tool_calls"),
        tool_call_response("file-write", write, "tool_calls"),
        finish(),
    ]);
    server.register_model(&world, SIZE);
    world
        .run(&["config", "set", "model.default", "here/large"])
        .succeeded();
    let path = world.path("shop").display().to_string();
    let words = ["run", "make it", "--path", &path, "--yes", "-f", "plain"];
    let run = world.run(&words).succeeded();
    let run = run.prints("models used 171 tokens, price unknown");
    assert!(!format!("{run:?}").contains("USD"), "{run:?}");
    let plans = world.json_data(&["plan", "list", "--all"]);
    let plan = plans["plans"][0]["plan_id"].as_str().unwrap().to_owned();
    let cost = status_cost(&world, &plan);
    assert_reported_tokens(&cost, 150, 21);
    assert_eq!(cost["usd"], Value::Null, "{cost}");
    assert_dollars(&cost, "estimated_usd", 0.0);
    assert_eq!(cost["tokens_used"], 171, "{cost}");
    let text = status_text(&world, &plan);
    assert!(text.contains("150 in, 21 out"), "{text}");
    assert!(text.contains("price unknown"), "{text}");
    assert!(!text.contains("USD"), "{text}");
}

#[test]
fn a_call_of_a_killed_process_may_have_cost_its_longest_answer() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![SILENCE.to_owned(), finish()]);
    let plan = plan_of(&world, &server, &priced(), "");
    world.kill_during_first_model_call(&plan);
    let call = world.model_calls(&plan)[0].clone();
    let (reserved, maximum) = (&call["reserved"], &call["maximum"]);
    assert!((0.2..0.4).contains(&dollars(reserved, "usd")), "{call}");
    assert!((1.6..1.8).contains(&dollars(maximum, "usd")), "{call}");
    // Its reservation counts before the next process looks at it.
    let killed = status_cost(&world, &plan);
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.model_call_states(&plan), ["interrupted", "answered"]);
    let resumed = status_cost(&world, &plan);
    assert_reported_tokens(&killed, 0, 0);
    assert_dollars(&killed, "usd", 0.0);
    assert_reported_tokens(&resumed, 50, 7);
    assert_dollars(&resumed, "usd", REPORTED_USD);
    for (cost, charged) in [(&killed, reserved), (&resumed, maximum)] {
        assert_dollars(cost, "estimated_usd", dollars(charged, "usd"));
        assert_eq!(cost["estimated_tokens"], charged["tokens"], "{cost}");
    }
    let text = status_text(&world, &plan);
    let words = format!("may have cost {:.4} USD", dollars(maximum, "usd"));
    assert!(text.contains(&words), "{text}");
}

/// The provider may have sent the whole answer that the budget paid for.
#[test]
fn a_killed_call_leaves_nothing_of_the_budget_that_its_answer_may_have_used() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![SILENCE.to_owned()]);
    let plan = plan_of(&world, &server, &priced(), BUDGET);
    world.kill_during_first_model_call(&plan);
    world.resume(&plan).exits(6);
    world.assert_waiting_for(&plan, "budget");
    assert_eq!(server.requests().len(), 1);
    let spent = dollars(&status_cost(&world, &plan), "cost_so_far");
    assert!((0.49..=0.5).contains(&spent), "{spent}");
}

#[test]
fn a_stopped_call_is_charged_as_an_estimate() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![SILENCE.to_owned()]);
    let plan = plan_of(&world, &server, &priced(), "");
    let mut follower = Follower::start(&world, &plan);
    let child = world.start(&["plan", "execute", &plan, "--format", "json"]);
    follower.wait_for("model_asked");
    world.run_json(&["plan", "cancel", &plan]).succeeded();
    AgentsRun::from_output(child.wait_with_output().unwrap());
    assert_eq!(world.model_call_states(&plan), ["interrupted"]);
    let cost = status_cost(&world, &plan);
    let reserved = world.model_calls(&plan)[0]["reserved"].clone();
    // No part of the answer had arrived, so only the prompt counts.
    let estimate = dollars(&cost, "estimated_usd");
    assert!(estimate > 0.0, "{cost}");
    assert!(estimate < dollars(&reserved, "usd") / 2.0, "{cost}");
}

fn answer_limits(server: &ChatServer) -> Vec<u64> {
    let requests = server.requests();
    let limits = requests.iter().map(|(_, body)| &body["max_tokens"]);
    limits.map(|it| it.as_u64().unwrap()).collect()
}

#[test]
fn answers_are_limited_to_what_the_budget_still_pays() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![long_answer(9000), finish()]);
    let plan = plan_of(&world, &server, &priced(), "budget: {usd: 0.5}\n");
    // The longest answer of the model would cost 1.60 dollars, and 0.5 pays for a usual one.
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let limits = answer_limits(&server);
    assert_eq!(limits.len(), 2, "{limits:?}");
    #[expect(clippy::cast_precision_loss, reason = "no answer is that long")]
    let price = |tokens: u64| tokens as f64 * OUTPUT_PRICE / 1e6;
    assert!(limits[0] > 8192, "{limits:?}");
    assert!(price(limits[0]) < 0.5, "{limits:?}");
    assert!(limits[1] > 8192, "{limits:?}");
    assert!(price(9000) + price(limits[1]) < 0.5, "{limits:?}");

    // Tokens limit an answer as dollars do.
    let server = ChatServer::start(vec![finish()]);
    let plan = plan_of(&world, &server, SIZE, "budget: {tokens: 30000}\n");
    world.execute(&plan).succeeded();
    let limits = answer_limits(&server);
    assert!((8192..30_000).contains(&limits[0]), "{limits:?}");

    // A budget that pays for the longest answer changes nothing, as none does.
    for budget in ["", "budget: {usd: 100}\n"] {
        let server = ChatServer::start(vec![finish()]);
        let plan = plan_of(&world, &server, &priced(), budget);
        world.execute(&plan).succeeded();
        assert_eq!(answer_limits(&server), [64_000], "{budget}");
    }
}

#[test]
fn a_setting_says_how_long_a_paid_answer_must_be() {
    let world = TestWorld::new();
    let server = ChatServer::start(vec![finish()]);
    let plan = plan_of(&world, &server, &priced(), "budget: {usd: 0.15}\n");
    // It pays for an answer, but not for one of 8192 tokens.
    world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/queued");
    assert!(server.requests().is_empty());
    world.assert_waiting_for(&plan, "budget");
    world
        .run(&["config", "set", "model.reserved-answer-tokens", "1024"])
        .succeeded();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let limits = answer_limits(&server);
    assert!((1024..6000).contains(&limits[0]), "{limits:?}");
}
