//! Removing any record from a complete set must be detected.

use cleveragents_domain::{NamespacedName, Timestamp};
use cleveragents_ports::sandbox::DiffLines;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

const PLAN: &str = "01JZZZZZZZ0000000000000001";
const CHANGESET: &str = "01JZZZZZZZ0000000000000002";
const WRITES: &str = "01JZZZZZZZ0000000000000003";
const READS: &str = "01JZZZZZZZ0000000000000004";
const OTHER: &str = "01JZZZZZZZ0000000000000005";
const BEFORE: &str = "1111111111111111111111111111111111111111";
const AFTER: &str = "2222222222222222222222222222222222222222";

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn state(content: &str) -> Value {
    json!({ "hash": content, "size": 1, "mode": 0o100_644 })
}

fn entry(sequence: i64, before: &str, after: &str) -> Value {
    json!({
        "sequence": sequence,
        "path": "a",
        "operation": "modify",
        "before": state(before),
        "after": state(after),
        "tool_call_id": WRITES,
        "actor": "builtin/direct",
        "step": 1,
    })
}

fn change(sequence: i64, before: &str, after: &str) -> RecordedChange {
    let mut row = entry(sequence, before, after);
    row["changeset_id"] = json!(CHANGESET);
    row["undone_by"] = Value::Null;
    from_json(row)
}

fn tool_call(number: i64, id: &str, after: &str) -> ToolCallRecord {
    from_json(json!({
        "id": id,
        "plan_id": PLAN,
        "attempt": 1,
        "step": 1,
        "turn": 1,
        "slot": 1,
        "tool": "builtin/file-write",
        "actor": "builtin/direct",
        "sandbox_id": OTHER,
        "input": {},
        "tree_before": BEFORE,
        "number": number,
        "state": "completed",
        "process": null,
        "output": null,
        "error": null,
        "tree_after": after,
        "started_at": Timestamp::default(),
        "finished_at": Timestamp::default(),
        "undone_by": null,
    }))
}

fn model_call() -> ModelCallRecord {
    from_json(json!({
        "id": OTHER,
        "plan_id": PLAN,
        "conversation": { "phase": "execute", "strategy": 1, "step": 1, "round": 0 },
        "turn": 1,
        "actor": "local/coder",
        "model": { "provider": "scripted", "model": "script.yaml" },
        "request": "",
        "reserved": { "tokens": 1, "usd": 0.0 },
        "after_call": 0,
        "number": 1,
        "ordinal": 0,
        "state": "answered",
        "answer": "",
        "usage": { "input_tokens": 1, "output_tokens": 1 },
        "spent": { "tokens": 1, "usd": 0.0 },
        "is_estimate": false,
        "error": null,
        "started_at": Timestamp::default(),
        "finished_at": Timestamp::default(),
        "undone_by": null,
    }))
}

fn error() -> Value {
    json!({
        "id": OTHER,
        "plan_id": PLAN,
        "sequence": 1,
        "category": "rate_limit",
        "message": "too many requests",
        "phase": "execute",
        "step": 1,
        "attempt": 1,
        "cause_chain": [],
        "recovery": "retry",
        "hints": [],
        "occurrences": 1,
        "at": Timestamp::default(),
    })
}

fn event(kind: EventKind, payload: &Value) -> Event {
    Event {
        seq: 1,
        stream: StreamId::Plan(PLAN.parse().unwrap()),
        stream_seq: 1,
        kind,
        v: 1,
        at: Timestamp::default(),
        actor: "test".to_owned(),
        payload: Some(to_raw_value(payload).unwrap()),
        payload_hash: String::new(),
        prev_hash: String::new(),
        hash: String::new(),
    }
}

/// Returns records of a call that wrote twice, a call that only read, a model call and an error.
fn complete_records() -> PlanRecords {
    let message = |sequence, before, after| {
        let payload = json!({
            "changeset_id": CHANGESET,
            "entry": entry(sequence, before, after),
        });
        event(EventKind::ChangeRecorded, &payload)
    };
    let nothing = json!({});
    let name: NamespacedName = "local/shop".parse().unwrap();
    PlanRecords {
        tool_calls: vec![tool_call(1, WRITES, AFTER), tool_call(2, READS, BEFORE)],
        model_calls: vec![model_call()],
        changes: vec![change(1, "x", "y"), change(2, "y", "z")],
        errors: vec![from_json(error())],
        events: vec![
            event(EventKind::ModelAsked, &nothing),
            event(EventKind::ModelAnswered, &nothing),
            event(EventKind::ToolInvoked, &nothing),
            message(1, "x", "y"),
            message(2, "y", "z"),
            event(EventKind::ToolCompleted, &nothing),
            event(EventKind::ToolInvoked, &nothing),
            event(EventKind::ToolCompleted, &nothing),
            event(EventKind::ErrorRecorded, &error()),
        ],
        net_changes: vec![Artifact {
            resource: name,
            path: "a".parse().unwrap(),
            kind: ArtifactKind::Edit,
            file: Some(from_json(state("z"))),
            lines: DiffLines::Binary,
        }],
    }
}

#[test]
fn complete_records_have_no_inconsistencies() {
    assert_eq!(complete_records().find_inconsistencies(), [] as [String; 0]);
    assert_eq!(complete_records().attempts(), complete_records().errors);
}

#[test]
fn every_missing_event_is_reported() {
    for place in 0..complete_records().events.len() {
        let mut records = complete_records();
        let event = records.events.remove(place);
        assert_eq!(records.find_inconsistencies().len(), 1, "{:?}", event.kind);
    }
}

#[test]
fn every_missing_row_is_reported() {
    type Damage = fn(&mut PlanRecords);
    let damages: [(Damage, &str); 9] = [
        (|it| drop(it.tool_calls.pop()), "calls of tools"),
        (|it| drop(it.model_calls.pop()), "calls of models"),
        (|it| drop(it.errors.pop()), "errors"),
        (|it| drop(it.changes.pop()), "without its change"),
        (|it| it.changes[1] = change(2, "y", "w"), "in no event"),
        (
            |it| it.net_changes.clear(),
            "recorded as changed, and is not",
        ),
        (|it| it.changes.clear(), "no change is recorded"),
        (
            |it| it.tool_calls[0].state = ToolCallState::Invoked,
            "never ended",
        ),
        (
            |it| it.model_calls[0].state = ModelCallState::Asked,
            "of a model never ended",
        ),
    ];
    for (damage, expected) in damages {
        let mut records = complete_records();
        damage(&mut records);
        let lost = records.find_inconsistencies().join("; ");
        assert!(lost.contains(expected), "{expected}: {lost}");
    }
}

#[test]
fn an_unrecorded_tree_change_is_reported() {
    let mut records = complete_records();
    records.net_changes[0].file = Some(from_json(state("other")));
    assert_eq!(
        records.find_inconsistencies(),
        ["a is not what was recorded"]
    );
    let gap = [change(1, "x", "y"), change(2, "w", "z")];
    let lost = check_replay(&gap, &complete_records().net_changes);
    assert_eq!(lost, ["a change of a between two that are recorded"]);
    records = complete_records();
    records.tool_calls[1].tree_after = Some(AFTER.parse().unwrap());
    let lost = records.find_inconsistencies().join("; ");
    assert!(lost.starts_with("call 2 of builtin/file-write:"), "{lost}");
}

#[test]
fn a_moved_file_is_removed_and_added() {
    let mut moved = change(1, "x", "x");
    moved.entry.operation = FileOperation::Rename {
        from: "b".parse().unwrap(),
    };
    let artifact = |path: &str, kind| Artifact {
        path: path.parse().unwrap(),
        kind,
        file: Some(from_json(state("x"))),
        ..complete_records().net_changes.remove(0)
    };
    let net = [
        artifact("a", ArtifactKind::Write),
        artifact("b", ArtifactKind::Delete),
    ];
    assert_eq!(check_replay(&[moved], &net), [] as [String; 0]);
}
