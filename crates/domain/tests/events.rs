//! The corpus of old events: every kind, in every shape in which a program wrote it, can still be
//! read. A new version of a kind gets a new file here; lines of a file never change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use cleveragents_domain::event::event_schema;
use cleveragents_domain::upcast::current_version;
use cleveragents_domain::{Event, EventKind, PayloadOutcome, StreamId, Timestamp};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

const VERSION_1: &str = include_str!("events/v1.ndjson");

#[derive(Deserialize)]
struct EventLine {
    kind: EventKind,
    v: i64,
    payload: Value,
}

impl EventLine {
    fn event(&self) -> serde_json::Result<Event> {
        Ok(Event {
            seq: 1,
            stream: StreamId::System,
            stream_seq: 1,
            kind: self.kind.clone(),
            v: self.v,
            at: Timestamp::default(),
            actor: "eva".to_owned(),
            payload: Some(to_raw_value(&self.payload)?),
            payload_hash: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        })
    }
}

fn corpus() -> serde_json::Result<Vec<EventLine>> {
    VERSION_1.lines().map(serde_json::from_str).collect()
}

#[test]
fn the_corpus_holds_every_kind_and_no_other() {
    let corpus = corpus().unwrap();
    let held: BTreeSet<String> = corpus.iter().map(|it| it.kind.to_string()).collect();
    let kinds: BTreeSet<String> = EventKind::ALL.iter().map(EventKind::to_string).collect();
    assert_eq!(held, kinds);
}

/// Payloads of the current version are written back unchanged, key by key.
#[test]
fn every_payload_is_read_and_written_back() {
    for line in corpus().unwrap() {
        let outcome = line.event().unwrap().read_body();
        let Ok(PayloadOutcome::Current(body)) = outcome else {
            panic!("{}: {outcome:?}: {}", line.kind, line.payload);
        };
        assert_eq!(body.kind(), line.kind);
        if line.v == current_version(&line.kind) {
            let written = serde_json::to_value(&body).unwrap();
            assert_eq!(written, line.payload, "{}", line.kind);
        }
    }
}

#[test]
fn the_schema_describes_the_corpus() {
    let schema = jsonschema::validator_for(&event_schema()).unwrap();
    for line in corpus().unwrap() {
        let mut event = serde_json::to_value(line.event().unwrap()).unwrap();
        for payload in [&line.payload, &Value::Null] {
            event["payload"] = payload.clone();
            let problem = schema.validate(&event).err().map(|it| it.to_string());
            assert_eq!(problem, None, "{}", line.kind);
        }
        event["payload"] = json!([]);
        assert!(!schema.is_valid(&event), "{}", line.kind);
    }
}

#[test]
fn the_docs_have_the_current_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = fs::read_to_string(root.join("docs/schemas/events.json")).unwrap_or_default();
    let generated = event_schema();
    if serde_json::from_str::<Value>(&kept).ok().as_ref() == Some(&generated) {
        return;
    }
    let folder = root.join("target/schemas");
    fs::create_dir_all(&folder).unwrap();
    let text = serde_json::to_string_pretty(&generated).unwrap() + "\n";
    let mut fresh = File::create(folder.join("events.json")).unwrap();
    fresh.write_all(text.as_bytes()).unwrap();
    panic!(
        "docs/schemas/events.json is not what the types say: \
         run `cp target/schemas/*.json docs/schemas/` and look at the difference"
    );
}
