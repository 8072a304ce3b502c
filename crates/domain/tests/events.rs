//! The corpus of old events: every kind, as each version of the program wrote it, can still be
//! read. A new version of a kind gets a new file here; old files never change.

use std::collections::BTreeSet;

use cleveragents_domain::upcast::{UpcastOutcome, current_version, upcast};
use cleveragents_domain::{
    Action, Attachment, AutomationProfile, ChangeEntry, Correction, Decision, DecisionEdge,
    ErrorRecord, EventKind, Invariant, Phase, Plan, PlanInvariant, PlanMessage, Position, Project,
    RepositoryFile, Resource, WaitReason,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const VERSION_1: &str = include_str!("events/v1.ndjson");

#[derive(Deserialize)]
struct EventLine {
    kind: EventKind,
    v: i64,
    payload: Value,
}

fn corpus() -> serde_json::Result<Vec<EventLine>> {
    VERSION_1.lines().map(serde_json::from_str).collect()
}

#[test]
fn the_corpus_holds_every_kind_once_and_no_other() {
    let held: Vec<String> = corpus()
        .unwrap()
        .iter()
        .map(|line| line.kind.to_string())
        .collect();
    let kinds: BTreeSet<String> = EventKind::ALL.iter().map(EventKind::to_string).collect();
    assert_eq!(held.iter().cloned().collect::<BTreeSet<_>>(), kinds);
    assert_eq!(held.len(), kinds.len(), "a kind is there twice");
}

#[test]
fn every_old_payload_is_upcast() {
    for line in corpus().unwrap() {
        assert!(line.v <= current_version(&line.kind), "{}", line.kind);
        let upcast = upcast(&line.kind, line.v, line.payload).unwrap();
        assert!(
            matches!(upcast, UpcastOutcome::Current(Value::Object(_))),
            "{}",
            line.kind
        );
    }
}

/// Deserialises a payload, or a part of it, and serialises it again; nothing may be lost. Keys
/// added later appear with their default values.
fn reads_back<T: DeserializeOwned + Serialize>(part: &Value) -> serde_json::Result<()> {
    let read: T = serde_json::from_value(part.clone())?;
    assert_preserved(part, &serde_json::to_value(read)?);
    Ok(())
}

fn assert_preserved(before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                assert_preserved(value, after.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            let pairs = before.iter().zip(after);
            pairs.for_each(|(before, after)| assert_preserved(before, after));
        }
        _ => assert_eq!(before, after),
    }
}

#[test]
fn payloads_still_deserialise_as_their_types() {
    let mut checked = 0;
    for line in corpus().unwrap() {
        let UpcastOutcome::Current(payload) = upcast(&line.kind, line.v, line.payload).unwrap()
        else {
            panic!("{} is newer than the program", line.kind);
        };
        let read = match line.kind {
            EventKind::PlanCreated => reads_back::<Plan>(&payload),
            // Its record names phases, not whole positions.
            EventKind::PlanCorrected => reads_back::<Phase>(&payload["to"]),
            EventKind::PlanPhaseChanged | EventKind::PlanStateChanged | EventKind::PlanReverted => {
                reads_back::<Position>(&payload["from"])
                    .and_then(|()| reads_back::<Position>(&payload["to"]))
            }
            EventKind::PlanWaiting => reads_back::<WaitReason>(&payload["waiting"]),
            EventKind::ActionCreated | EventKind::ActionUpdated => reads_back::<Action>(&payload),
            EventKind::ProjectCreated | EventKind::ProjectUpdated => {
                reads_back::<Project>(&payload)
            }
            EventKind::ResourceAdded => reads_back::<Resource>(&payload),
            EventKind::ProfileAdded | EventKind::ProfileUpdated => {
                reads_back::<AutomationProfile>(&payload)
            }
            EventKind::RepositoryFileTrusted => reads_back::<RepositoryFile>(&payload),
            EventKind::CorrectionRequested
            | EventKind::CorrectionCompleted
            | EventKind::CorrectionFailed => reads_back::<Correction>(&payload),
            EventKind::InvariantAdded | EventKind::InvariantRemoved => {
                reads_back::<Invariant>(&payload)
            }
            EventKind::ValidationAttached | EventKind::ValidationDetached => {
                reads_back::<Attachment>(&payload)
            }
            EventKind::MessageSent => reads_back::<PlanMessage>(&payload),
            EventKind::DecisionCreated => reads_back::<Decision>(&payload),
            EventKind::DecisionInfluenced => reads_back::<DecisionEdge>(&payload),
            EventKind::InvariantReconciled => {
                reads_back::<Vec<PlanInvariant>>(&payload["effective"])
            }
            EventKind::ToolCompleted => reads_back::<Vec<ChangeEntry>>(&payload["changes"]),
            EventKind::ChangeRecorded => reads_back::<ChangeEntry>(&payload["entry"]),
            EventKind::ErrorRecorded => reads_back::<ErrorRecord>(&payload),
            _ => continue,
        };
        read.unwrap();
        checked += 1;
    }
    assert_eq!(checked, 28);
}
