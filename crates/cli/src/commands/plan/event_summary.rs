//! One-line summaries of events for people.

use std::fmt::Display;

use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::event::payloads::{PhaseChange, StateChange};
use cleveragents_domain::{EventBody, PayloadOutcome};

use crate::failure::excerpt;

/// Returns a short summary of the payload. Empty if there is nothing to say about it.
pub(super) fn summarize(event: &JournalEvent) -> String {
    match event.read_body() {
        Ok(PayloadOutcome::Purged) => "(erased)".to_owned(),
        Ok(outcome) => outcome.known().map(describe).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

fn describe(body: EventBody) -> String {
    match body {
        EventBody::PlanPhaseChanged(it) => describe_phase(&it.0),
        EventBody::PlanReverted(it) => describe_phase(&it.0),
        EventBody::PlanCorrected(it) => describe_phase(&it.0),
        EventBody::PlanStateChanged(it) => describe_state(&it.0),
        EventBody::PlanApplied(it) => describe_state(&it.0),
        EventBody::PlanCancelled(it) => describe_state(&it.0),
        EventBody::PlanErrored(it) => describe_state(&it.0),
        EventBody::PlanWaiting(it) => describe_state(&it.0),
        EventBody::SandboxStateChanged(it) => describe_change(it.from, it.to, None),
        EventBody::DecisionInfluenced(it) => describe_change(it.0.from, it.0.to, None),
        EventBody::ActorErrored(it) => excerpt(&it.reason),
        EventBody::ToolRefused(it) => excerpt(&it.reason),
        EventBody::ApplyAborted(it) => excerpt(&it.reason),
        EventBody::PayloadPurged(it) => excerpt(&it.reason),
        EventBody::ErrorRecorded(it) => excerpt(&it.0.message),
        EventBody::DecisionCreated(it) => excerpt(&it.0.chosen_option),
        EventBody::InvariantEnforced(it) => excerpt(&it.0.chosen_option),
        EventBody::PlanPrompted(it) => excerpt(&it.0.body),
        EventBody::MessageSent(it) => excerpt(&it.0.body),
        EventBody::PlanCreated(it) => excerpt(&it.0.name.to_string()),
        EventBody::PlanDeleted(it) => excerpt(&it.name.to_string()),
        EventBody::InvariantAdded(it) => excerpt(&it.0.text),
        EventBody::InvariantRemoved(it) => excerpt(&it.0.text),
        _ => String::new(),
    }
}

fn describe_phase(change: &PhaseChange) -> String {
    describe_change(change.from, change.to, change.reason.as_deref())
}

fn describe_state(change: &StateChange) -> String {
    describe_change(change.from, change.to, change.reason.as_deref())
}

fn describe_change(from: impl Display, to: impl Display, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{from} → {to}: {}", excerpt(reason)),
        None => format!("{from} → {to}"),
    }
}
