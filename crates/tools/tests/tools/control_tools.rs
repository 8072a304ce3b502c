//! Reports of actors to their plan: accepted within their limits, and nothing is touched.

use cleveragents_domain::tool::control::{
    ControlTool, FinishInput, Question, StatedDecision, SubmittedStrategy, TEXT_MAXIMUM,
};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, Toolbox};
use serde_json::{Value, json};

use crate::fixture::ToolFixture;

fn strategy() -> Value {
    json!({
        "summary": "Add a greeting",
        "confidence": 0.8,
        "rationale": "It is asked for",
        "decisions": [
            {"question": "Where?", "chosen": "main.rs", "alternatives": ["lib.rs"],
             "confidence": 1, "rationale": "It runs first"},
            {"question": "In which language?", "chosen": "English"},
        ],
        "steps": [
            {"title": "Write it", "description": "With a test"},
            {"title": "Check it"},
        ],
    })
}

fn strategy_with_steps(count: usize) -> Value {
    let mut strategy = strategy();
    strategy["steps"] = (0..count)
        .map(|n| json!({"title": n.to_string()}))
        .collect();
    strategy
}

#[test]
fn each_control_tool_acknowledges_and_touches_nothing() {
    let fixture = ToolFixture::new();
    for (tool, input, answer) in [
        ("finish", json!({"summary": "Done"}), "finished"),
        ("submit-strategy", strategy(), "accepted"),
        ("submit-strategy", strategy_with_steps(50), "accepted"),
        (
            "submit-strategy",
            json!({"summary": "s", "confidence": 0, "steps": [{"title": "t"}]}),
            "accepted",
        ),
        (
            "record-decision",
            strategy()["decisions"][0].clone(),
            "recorded",
        ),
        ("ask-user", json!({"question": "Which one?"}), "asked"),
        (
            "finish",
            json!({"summary": "x".repeat(TEXT_MAXIMUM)}),
            "finished",
        ),
    ] {
        let output = fixture.run(tool, &input).unwrap();
        assert_eq!(output.data, json!({answer: true}), "{tool}");
        assert_eq!(output.touched, TouchedPaths::Paths(Vec::new()), "{tool}");
    }
    fixture.assert_outside_untouched();
}

#[test]
fn valid_inputs_deserialize_to_domain_types() {
    let read: SubmittedStrategy = serde_json::from_value(strategy()).unwrap();
    assert_eq!(read.steps[0].description, "With a test");
    assert_eq!(read.decisions[0].alternatives, ["lib.rs"]);
    assert_eq!(read.decisions[1].confidence, None);
    let decision: StatedDecision =
        serde_json::from_value(strategy()["decisions"][1].clone()).unwrap();
    assert_eq!(decision, read.decisions[1]);
    let finish: FinishInput = serde_json::from_value(json!({"summary": "s"})).unwrap();
    let question: Question = serde_json::from_value(json!({"question": "s"})).unwrap();
    assert_eq!(finish.summary, question.question);
}

fn assert_refused(tool: &str, input: &Value, said: &str) {
    let failure = ToolFixture::new().failure(tool, input);
    let ToolFailure::Input { reason } = &failure else {
        panic!("{tool}: {failure:?}");
    };
    assert!(reason.contains(said), "{tool} {said}: {reason}");
    assert!(reason.len() < 10_000, "{tool} {said}");
}

/// More bytes than a text may have, in fewer characters.
fn too_long_text() -> String {
    "é".repeat(TEXT_MAXIMUM / 2 + 1)
}

#[test]
fn too_long_or_blank_inputs_are_refused_with_their_path() {
    let decision = |key: &str, value: Value| {
        let mut decision = json!({"question": "q", "chosen": "c"});
        decision[key] = value;
        decision
    };
    for (tool, input, said) in [
        (
            "finish",
            json!({"summary": too_long_text()}),
            "at /summary: a text may have 16384 bytes, this one has 16386",
        ),
        (
            "finish",
            json!({"summary": " \n"}),
            "at /summary: there is nothing in it",
        ),
        ("finish", json!({}), "`summary` is missing"),
        ("ask-user", json!({"question": ""}), "at /question: "),
        (
            "ask-user",
            json!({"question": "q", "options": []}),
            "`options` is not expected",
        ),
        (
            "record-decision",
            decision("chosen", json!(" ")),
            "at /chosen: there is nothing in it",
        ),
        (
            "record-decision",
            decision("confidence", json!(1.1)),
            "at /confidence: 1.1 is greater than the maximum of 1",
        ),
        (
            "record-decision",
            decision("confidence", json!("high")),
            "at /confidence: expected number, found string",
        ),
        (
            "record-decision",
            decision("alternatives", json!(vec!["a"; 11])),
            "at /alternatives: there may be 10 entries, there are 11",
        ),
    ] {
        assert_refused(tool, &input, said);
    }
}

#[test]
fn a_strategy_beyond_its_limits_is_refused_with_its_path() {
    let with = |pointer: &str, value: Value| {
        let mut strategy = strategy();
        *strategy.pointer_mut(pointer).unwrap() = value;
        strategy
    };
    let decision = json!({"question": "q", "chosen": "c"});
    for (input, said) in [
        (json!([]), "expected object, found array"),
        (strategy_with_steps(0), "at /steps: "),
        (
            strategy_with_steps(51),
            "at /steps: there may be 50 entries, there are 51",
        ),
        (
            with("/confidence", json!(-0.1)),
            "at /confidence: -0.1 is less than the minimum of 0",
        ),
        (
            with("/decisions", vec![decision; 21].into()),
            "at /decisions: there may be 20 entries, there are 21",
        ),
        (
            with("/decisions/0/alternatives", json!(vec!["a"; 11])),
            "at /decisions/0/alternatives: there may be 10 entries, there are 11",
        ),
        (
            with("/decisions/0/chosen", json!("\t")),
            "at /decisions/0/chosen: there is nothing in it",
        ),
        (
            with("/steps/1/title", json!("t".repeat(201))),
            "at /steps/1/title: a title may have 200 characters, this one has 201",
        ),
        (
            with("/steps/1/title", json!("two\nlines")),
            "at /steps/1/title: a title is one line",
        ),
        (
            with("/steps/0/description", json!(too_long_text())),
            "at /steps/0/description: a text may have 16384 bytes, this one has 16386",
        ),
    ] {
        assert_refused("submit-strategy", &input, said);
    }
}

/// A limit of thousands in any schema makes servers refuse every request that offers the tool.
#[test]
fn no_schema_states_length_limits() {
    fn count_length_limits(value: &Value) -> usize {
        match value {
            Value::Object(entries) => entries
                .iter()
                .map(|(key, value)| {
                    usize::from(["maxLength", "maxItems"].contains(&key.as_str()))
                        + count_length_limits(value)
                })
                .sum(),
            Value::Array(items) => items.iter().map(count_length_limits).sum(),
            _ => 0,
        }
    }
    let fixture = ToolFixture::new();
    for definition in fixture.tools.definitions() {
        assert_eq!(
            count_length_limits(&definition.input_schema),
            0,
            "{}",
            definition.name
        );
    }
    for tool in ControlTool::ALL {
        assert!(
            fixture
                .tools
                .tool(&tool.as_str().parse().unwrap())
                .is_some(),
            "{tool}"
        );
    }
}
