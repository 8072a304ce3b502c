//! Conversations that repeatedly outgrow the model's context: old turns are removed, pinned texts
//! never, and the size of requests does not grow with the length of the conversation.

use serde_json::Value;

use crate::event_follower::Follower;
use crate::models::{finish, messages_text, turn};
use crate::world::{TRUSTED, TestWorld};

/// The model's context, and the part of it for the answer, in tokens.
const CONTEXT: u64 = 12_000;
const ANSWER: u64 = 1_000;

/// The number of turns before the last.
const TURNS: u32 = 40;

/// Texts that every request must contain.
const PINNED_TEXTS: [&str; 6] = [
    "Do the job",
    "Nothing is left to be desired",
    "Keep the public interface",
    "test -e last",
    "Your step: 1",
    "Instructions from AGENTS.md",
];

/// Returns a call with about a page of output; call 5 has more than the model can take.
fn output_turn(number: u32) -> String {
    let command = match number {
        5 => "yes yyyyyyyyyy | head -c 300000".to_owned(),
        _ => format!("echo {number} {}", "x ".repeat(800)),
    };
    turn(&[("shell", &format!("{{command: '{command}'}}"))])
}

/// Returns the messages of a request that summarise removed turns.
fn summaries_of(model_call: &Value) -> Vec<String> {
    let messages = model_call["messages"].as_array().unwrap().iter();
    let texts = messages.filter_map(|it| it["text"].as_str());
    texts
        .filter(|it| it.starts_with("Earlier turns were left out"))
        .map(str::to_owned)
        .collect()
}

/// Returns the tool results in a request.
fn tool_results(model_call: &Value) -> Vec<String> {
    let messages = model_call["messages"].as_array().unwrap().iter();
    let results = messages.filter(|it| it["role"] == "tool");
    results
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

/// A plan whose model produces much output, with a rule, a check and instructions of the
/// repository.
fn set_up(world: &TestWorld) -> String {
    world.write("shop/AGENTS.md", "Write tests before breakfast.\n");
    world.commit("shop", "words");
    let last = turn(&[("shell", "{command: 'touch last'}")]);
    let turns: String = (0..TURNS).map(output_turn).collect();
    let size = format!("context_tokens: {CONTEXT}\nanswer_tokens: {ANSWER}\n");
    world.define_llm_actor("coder", &[turns, last, finish("Done")].concat(), &size);
    world.define_llm_job(
        "builtin/direct",
        "local/coder",
        "definition_of_done: Nothing is left to be desired\n\
         invariants: [Keep the public interface]\nchecks: [{run: test -e last}]\n",
    );
    world.create_plan(TRUSTED)
}

/// Asserts that every request contains the pinned texts, fits the model, and has at most one
/// summary, whose length stays bounded.
#[track_caller]
fn assert_requests_stay_small(world: &TestWorld, plan: &str) -> Vec<Value> {
    let model_calls = world.model_calls(plan);
    let mut longest = 0;
    for request in &model_calls {
        let (text, number) = (messages_text(request), &request["number"]);
        for words in PINNED_TEXTS {
            assert!(text.contains(words), "{words} is not in request {number}");
        }
        let tokens = request["reserved"]["tokens"].as_u64().unwrap();
        assert!(tokens <= CONTEXT, "request {number} has {tokens} tokens");
        for result in tool_results(request) {
            let size = result.len();
            assert!(size < 16_000, "{size} bytes are told in request {number}");
        }
        let summaries = summaries_of(request);
        assert!(summaries.len() <= 1, "{summaries:?}");
        longest = summaries
            .first()
            .map_or(longest, |it| longest.max(it.len()));
    }
    // The summary may take a quarter of the half that compaction leaves; a token is a word or less
    // here.
    assert!((200..12_000).contains(&longest), "{longest}");
    model_calls
}

#[test]
fn repeated_compaction_keeps_the_pinned_texts() {
    let world = TestWorld::new();
    let plan = set_up(&world);
    let words = "Message from the user: Mind the gap";
    world
        .run_json(&["plan", "prompt", &plan, "Mind the gap"])
        .succeeded();
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let compacted = world.events_of_kind(&plan, "conversation_compacted");
    assert!(compacted.len() >= 4, "{}", compacted.len());
    for event in &compacted {
        let tokens = |key: &str| event["payload"][key].as_u64().unwrap();
        assert!(tokens("tokens_after") <= CONTEXT - ANSWER, "{event}");
        assert!(tokens("tokens_after") < tokens("tokens_before"), "{event}");
    }
    let model_calls = assert_requests_stay_small(&world, &plan);
    assert_eq!(model_calls.len(), TURNS as usize + 2);
    for request in &model_calls {
        // The user's prompt is never shortened and never repeated.
        assert_eq!(
            messages_text(request).matches(words).count(),
            1,
            "{request}"
        );
    }
    let last = messages_text(model_calls.last().unwrap());
    assert!(last.contains("touch last"), "the newest stays");
    assert!(!last.contains("yyyyyyyyyy"), "the oldest is gone");
}

#[test]
fn a_compacted_conversation_can_be_resumed() {
    let world = TestWorld::new();
    let plan = set_up(&world);
    let mut follower = Follower::start(&world, &plan);
    let mut child = world.start(&["plan", "execute", &plan]);
    (0..2).for_each(|_| drop(follower.wait_for("conversation_compacted")));
    follower.wait_for("model_asked");
    child.kill().unwrap();
    child.wait().unwrap();
    // The killed process has used up a turn of the script.
    world.resume(&plan);
    let model_calls = assert_requests_stay_small(&world, &plan);
    crate::models::assert_no_repeated_calls(&model_calls);
    assert!(world.events_of_kind(&plan, "conversation_compacted").len() >= 4);
}
