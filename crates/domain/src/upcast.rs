//! Converts event payloads of older versions to the current version.
//!
//! Each step converts a kind's payload from one version to the next. When a payload changes, add a
//! step; never change old steps or the corpus in `tests/events`, because journals are kept forever.

use serde_json::Value;

use crate::event::EventKind;

/// The version in which every kind was first written.
const FIRST_VERSION: i64 = 1;

/// Converts the payload of `kind` from version `from` to the next.
struct UpcastStep {
    kind: EventKind,
    from: i64,
    change: fn(Value) -> Value,
}

/// Ordered by version. Every kind is still at its first version.
const STEPS: &[UpcastStep] = &[];

/// A payload, and whether this program understands its version.
#[derive(Debug, Clone, PartialEq)]
pub enum UpcastOutcome {
    /// In the newest version of its kind.
    Current(Value),
    /// Written by a newer program and left unchanged. Readers use the fields they know and ignore
    /// the rest.
    Newer { v: i64, payload: Value },
}

/// A version that no program wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event {kind} has version {v}, but versions begin at {FIRST_VERSION}")]
pub struct UpcastError {
    pub kind: EventKind,
    pub v: i64,
}

/// The version in which this program writes `kind`.
pub fn current_version(kind: &EventKind) -> i64 {
    newest_version(kind, STEPS)
}

/// Converts a payload of `kind` from version `v` to the newest version.
pub fn upcast(kind: &EventKind, v: i64, payload: Value) -> Result<UpcastOutcome, UpcastError> {
    upcast_by(STEPS, kind, v, payload)
}

fn newest_version(kind: &EventKind, steps: &[UpcastStep]) -> i64 {
    let of_kind = steps.iter().filter(|step| step.kind == *kind);
    of_kind.fold(FIRST_VERSION, |newest, step| newest.max(step.from + 1))
}

fn upcast_by(
    steps: &[UpcastStep],
    kind: &EventKind,
    v: i64,
    payload: Value,
) -> Result<UpcastOutcome, UpcastError> {
    if v < FIRST_VERSION {
        let kind = kind.clone();
        return Err(UpcastError { kind, v });
    }
    let unknown = matches!(kind, EventKind::Unknown(_));
    if unknown || v > newest_version(kind, steps) {
        return Ok(UpcastOutcome::Newer { v, payload });
    }
    let due = |step: &&UpcastStep| step.kind == *kind && step.from >= v;
    let upcast = |payload, step: &UpcastStep| (step.change)(payload);
    Ok(UpcastOutcome::Current(
        steps.iter().filter(due).fold(payload, upcast),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A kind that has changed twice: `x` was renamed to `y`, then `z` was added.
    const CHANGED_TWICE: &[UpcastStep] = &[
        UpcastStep {
            kind: EventKind::PlanCreated,
            from: 1,
            change: |payload| json!({"y": payload["x"]}),
        },
        UpcastStep {
            kind: EventKind::PlanCreated,
            from: 2,
            change: |payload| json!({"y": payload["y"], "z": 0}),
        },
    ];

    #[test]
    fn every_kind_is_at_its_first_version() {
        for kind in EventKind::ALL {
            assert_eq!(current_version(kind), 1, "{kind}");
            let payload = json!({"a": 1});
            assert_eq!(
                upcast(kind, 1, payload.clone()),
                Ok(UpcastOutcome::Current(payload))
            );
        }
    }

    #[test]
    fn a_payload_passes_every_step_after_its_version() {
        let kind = &EventKind::PlanCreated;
        let newest = Ok(UpcastOutcome::Current(json!({"y": 7, "z": 0})));
        assert_eq!(newest_version(kind, CHANGED_TWICE), 3);
        for (v, payload) in [
            (1, json!({"x": 7})),
            (2, json!({"y": 7})),
            (3, json!({"y": 7, "z": 0})),
        ] {
            assert_eq!(upcast_by(CHANGED_TWICE, kind, v, payload), newest);
        }
        let other = upcast_by(CHANGED_TWICE, &EventKind::PlanApplied, 1, json!({"x": 7}));
        assert_eq!(other, Ok(UpcastOutcome::Current(json!({"x": 7}))));
    }

    #[test]
    fn a_newer_payload_is_marked_and_unchanged() {
        let payload = json!({"tea": "green"});
        let newer = |v| UpcastOutcome::Newer {
            v,
            payload: payload.clone(),
        };
        assert_eq!(
            upcast(&EventKind::PlanCreated, 2, payload.clone()),
            Ok(newer(2))
        );
        let unknown = EventKind::from("tea_brewed");
        assert_eq!(upcast(&unknown, 1, payload.clone()), Ok(newer(1)));
    }

    #[test]
    fn versions_begin_at_one() {
        assert_eq!(
            upcast(&EventKind::PlanCreated, 0, json!({}))
                .unwrap_err()
                .to_string(),
            "the event plan_created has version 0, but versions begin at 1"
        );
    }
}
