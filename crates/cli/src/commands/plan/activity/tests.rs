//! Events and progress in, lines out.

use cleveragents_domain::Timestamp;
use serde_json::{Value, json};

use super::*;

const CALL: &str = "01JZZZZZZZ0000000000ABCDEF";
const OTHER_CALL: &str = "01JZZZZZZZ0000000000ABCDEG";

fn event(kind: &str, payload: Value) -> JournalEvent {
    JournalEvent {
        seq: 1,
        plan_seq: 1,
        kind: kind.to_owned(),
        v: 1,
        at: Timestamp::default(),
        actor: "eva".to_owned(),
        payload: Some(payload),
        hash: String::new(),
    }
}

fn invoked(call: &str, tool: &str, input: &Value) -> JournalEvent {
    let payload = json!({
        "tool_call_id": call, "number": 1, "tool": format!("builtin/{tool}"), "input": input,
        "actor": "local/coder", "step": 1, "turn": 1, "sandbox_id": CALL,
    });
    event("tool_invoked", payload)
}

fn completed(call: &str, tool: &str, more: &Value) -> JournalEvent {
    let mut payload = json!({
        "tool_call_id": call, "number": 1, "tool": format!("builtin/{tool}"), "changes": 0,
        "duration_ms": 12_345, "tree": "c8e2f3d8c34de6fa43c50d063ec9db9a60a7f4c2",
    });
    let more = more.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(more);
    event("tool_completed", payload)
}

fn model_text(text: &str) -> Progress {
    Progress::ModelText {
        model_call: 1,
        text: text.to_owned(),
    }
}

fn texts(lines: &[ActivityLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn a_call_is_one_line_when_it_is_complete() {
    let mut activity = PlanActivity::new(None);
    for (tool, input, more, expected) in [
        (
            "file-edit",
            json!({"path": "src/cart.rs"}),
            json!({"lines": {"added": 4, "removed": 1}}),
            "edit src/cart.rs +4 −1",
        ),
        (
            "shell",
            json!({"command": "cargo test"}),
            json!({"exit_code": 0}),
            "$ cargo test  ok 12 s",
        ),
        (
            "shell",
            json!({"command": "make"}),
            json!({"exit_code": 2}),
            "$ make  exit 2, 12 s",
        ),
        ("file-read", json!({"path": "a"}), json!({}), "read a"),
    ] {
        let begin = activity.event(&invoked(CALL, tool, &input));
        assert_eq!(begin, Vec::new());
        assert!(
            activity.status().ends_with(
                expected
                    .split("  ")
                    .next()
                    .unwrap()
                    .split(" +")
                    .next()
                    .unwrap()
            )
        );
        let end = activity.event(&completed(CALL, tool, &more));
        assert_eq!(texts(&end), [expected]);
    }
    assert!(
        activity.status().starts_with("4 calls · "),
        "{}",
        activity.status()
    );
}

#[test]
fn calls_at_the_same_time_keep_their_texts() {
    let mut activity = PlanActivity::new(None);
    activity.event(&invoked(CALL, "file-read", &json!({"path": "a"})));
    activity.event(&invoked(OTHER_CALL, "file-read", &json!({"path": "b"})));
    let end = activity.event(&completed(CALL, "file-read", &json!({})));
    assert_eq!(texts(&end), ["read a"]);
    let failed = json!({
        "tool_call_id": OTHER_CALL, "number": 2, "tool": "builtin/file-read", "changes": 0,
        "duration_ms": 1, "omitted": [], "tree": "c8e2f3d8c34de6fa43c50d063ec9db9a60a7f4c2",
        "error": "b does not exist",
    });
    let end = activity.event(&event("tool_errored", failed));
    assert_eq!(texts(&end), ["read b  failed: b does not exist"]);
}

#[test]
fn a_strategy_is_a_numbered_list_and_steps_are_counted() {
    let mut activity = PlanActivity::new(None);
    let stored = json!({"number": 1, "hash": "a", "steps": 2, "titles": ["Write it", "Test it"]});
    let lines = activity.event(&event("strategy_stored", stored));
    assert_eq!(texts(&lines), ["strategy", "1. Write it", "2. Test it"]);
    let invoked = json!({"actor": "local/coder", "step": 2, "steps": 2, "title": "Test it"});
    let lines = activity.event(&event("actor_invoked", invoked));
    assert_eq!(texts(&lines), ["step 2/2  Test it"]);
}

#[test]
fn text_of_a_model_becomes_lines_as_it_arrives() {
    let mut activity = PlanActivity::new(None);
    assert_eq!(activity.progress(&model_text("I read")), Vec::new());
    assert_eq!(activity.open_text(), "I read");
    let lines = activity.progress(&model_text(" it.\n\nThen I wr"));
    assert_eq!(texts(&lines), ["I read it."]);
    assert_eq!(activity.open_text(), "Then I wr");
    // The end of the answer ends the line.
    let answered = json!({
        "model_call_id": CALL, "answer": "a", "finish": "stop",
        "usage": {"input_tokens": 3, "output_tokens": 2}, "usd": 0.5,
    });
    let lines = activity.event(&event("model_answered", answered));
    assert_eq!(texts(&lines), ["Then I wr"]);
    assert_eq!(activity.open_text(), "");
    assert!(
        activity.status().contains("0.5000 USD"),
        "{}",
        activity.status()
    );
}

#[test]
fn long_text_is_broken_between_words() {
    let mut activity = PlanActivity::new(Some(13));
    let mut lines = Vec::new();
    for character in "one two three fourfourfourfour five\nsix".chars() {
        lines.extend(activity.progress(&model_text(&character.to_string())));
        assert!(activity.open_text().len() <= 17, "{}", activity.open_text());
    }
    let expected = ["one two", "three", "fourfourfourfour", "five"];
    assert_eq!(texts(&lines), expected);
    assert_eq!(activity.end_text().unwrap().text, "six");
}

#[test]
fn text_without_an_end_is_broken_at_the_maximum() {
    for width in [None, Some(80)] {
        let mut activity = PlanActivity::new(width);
        let lines = activity.progress(&model_text(&"x".repeat(2 * LINE_MAXIMUM + 5)));
        let lengths: Vec<usize> = lines.iter().map(|line| line.text.len()).collect();
        assert_eq!(lengths, [LINE_MAXIMUM, LINE_MAXIMUM]);
        assert_eq!(activity.open_text(), "xxxxx");
    }
}

#[test]
fn a_question_that_an_event_leaves_out_replaces_the_one_before() {
    let mut activity = PlanActivity::new(None);
    activity.read_question(&invoked(CALL, "ask-user", &json!({"question": "Which?"})));
    assert_eq!(activity.question(), "Which?");
    let abridged = json!({"left_out_bytes": 20_000, "hash": "00"});
    activity.event(&invoked(OTHER_CALL, "ask-user", &abridged));
    assert_eq!(activity.question(), LONG_QUESTION);
}

#[test]
fn a_retry_says_when_and_why() {
    let mut activity = PlanActivity::new(None);
    let lines = activity.progress(&Progress::ModelRetry {
        attempt: 3,
        max_attempts: 6,
        delay_ms: 28_400,
        error: "DNS lookup failed\nand more".to_owned(),
    });
    assert_eq!(texts(&lines), ["retry 3/5 in 28 s: DNS lookup failed …"]);
}

#[test]
fn a_question_and_a_summary_are_shown_once() {
    let mut activity = PlanActivity::new(None);
    let ask = invoked(CALL, "ask-user", &json!({"question": "Which colour?"}));
    assert_eq!(texts(&activity.event(&ask)), ["question: Which colour?"]);
    let end = activity.event(&completed(CALL, "ask-user", &json!({})));
    assert_eq!(end, Vec::new());
    let finish = invoked(
        CALL,
        "finish",
        &json!({"summary": "It is made.\n\nTested."}),
    );
    assert_eq!(texts(&activity.event(&finish)), ["It is made.", "Tested."]);
}
