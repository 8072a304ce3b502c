//! The JSON Schema of the event stream, for programs that read `plan log --format json`.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::kinds::{EventKind, payload_schemas};
use crate::time::Timestamp;
use crate::upcast::current_version;

/// Returns the schema of one event: its envelope, and its payload by kind.
pub fn event_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let at = generator.subschema_for::<Timestamp>();
    let known: Vec<&str> = EventKind::ALL.iter().map(EventKind::as_str).collect();
    let payloads = payload_schemas(&mut generator);
    let payloads = payloads.into_iter().map(|(kind, payload)| {
        json!({
            "title": kind,
            "properties": {
                "kind": {"const": kind},
                "v": {"const": current_version(&kind)},
                "payload": {"anyOf": [payload, {"type": "null"}]},
            },
        })
    });
    let newer = json!({
        "title": "a kind of a newer program",
        "properties": {"kind": {"not": {"enum": known}}},
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CleverAgents event",
        "description": "One event of the journal. Its payload depends on its kind and is null once \
                        it was purged.",
        "type": "object",
        "required": ["seq", "plan_seq", "kind", "v", "at", "actor", "payload", "hash"],
        "properties": {
            "seq": {"type": "integer", "description": "Increases over all streams; may have gaps."},
            "stream": {"type": "string", "description": "The id of a plan, or `system`."},
            "plan_seq": {"type": "integer", "description": "Position in the stream: 1, 2, 3 …"},
            "kind": {"type": "string"},
            "v": {"type": "integer", "description": "The version of the kind's payload."},
            "at": at,
            "actor": {"type": "string"},
            "payload_hash": {"type": "string"},
            "prev_hash": {"type": "string"},
            "hash": {"type": "string"},
        },
        "oneOf": payloads.chain([newer]).collect::<Vec<Value>>(),
        "$defs": generator.take_definitions(true),
    })
}
