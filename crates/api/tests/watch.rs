//! The items of a watch have one form in JSON.

use cleveragents_api::WatchItem;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::Timestamp;
use cleveragents_domain::progress::Progress;
use serde_json::{Value, json};

#[track_caller]
fn assert_form(item: &WatchItem, expected: &Value) {
    let value = serde_json::to_value(item).ok();
    assert_eq!(value.as_ref(), Some(expected));
    let read: Option<WatchItem> = serde_json::from_value(expected.clone()).ok();
    assert_eq!(read.as_ref(), Some(item));
}

#[test]
fn events_are_read_as_they_were_written() {
    let event = |payload| JournalEvent {
        seq: 12,
        plan_seq: 3,
        kind: "payload_purged".to_owned(),
        v: 1,
        at: Timestamp::default(),
        actor: "eva".to_owned(),
        payload,
        hash: "abc".to_owned(),
    };
    let payload = json!({"places": [2], "reason": "personal"});
    let item = WatchItem::Events {
        events: vec![event(Some(payload.clone())), event(None)],
    };
    let expected = |payload: Value| {
        json!({
            "seq": 12,
            "plan_seq": 3,
            "kind": "payload_purged",
            "v": 1,
            "at": Timestamp::default(),
            "actor": "eva",
            "payload": payload,
            "hash": "abc",
        })
    };
    let events = [expected(payload), expected(Value::Null)];
    assert_form(&item, &json!({"type": "events", "events": events}));
}

#[test]
fn progress_is_read_as_it_was_written() {
    for (progress, expected) in [
        (
            Progress::WaitingForSlot { running: 4 },
            json!({"type": "waiting_for_slot", "running": 4}),
        ),
        (
            Progress::ModelText {
                model_call: 7,
                text: "Hello".to_owned(),
            },
            json!({"type": "model_text", "model_call": 7, "text": "Hello"}),
        ),
        (
            Progress::CallStarted {
                tool: "builtin/file-read".parse().unwrap(),
            },
            json!({"type": "call_started", "tool": "builtin/file-read"}),
        ),
        (
            Progress::ModelRetry {
                attempt: 2,
                max_attempts: 5,
                delay_ms: 1500,
                error: "busy".to_owned(),
            },
            json!({
                "type": "model_retry",
                "attempt": 2,
                "max_attempts": 5,
                "delay_ms": 1500,
                "error": "busy",
            }),
        ),
    ] {
        let item = WatchItem::Progress { progress };
        assert_form(&item, &json!({"type": "progress", "progress": expected}));
    }
}
