//! How plans are found and shown, the same in every verb.

use std::time::Duration;

use cleveragents_domain::id::{ID_LENGTH, PlanId};
use cleveragents_domain::{NamespacedName, Plan, Position, State, StreamId, Timestamp, Waiting};
use cleveragents_engine::StoreError;
use cleveragents_engine::lifecycle::LifecycleError;
use serde_json::{Value, json};

use crate::ask::{Reply, confirm};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Cell, Tone};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// The plan that was named.
pub(crate) fn find(wired: &Wired<'_>, plan: &PlanArgument) -> Result<Plan, Failure> {
    let found = wired.wait(wired.lifecycle().find_plan(plan.0.clone()));
    found.map_err(|error| unknown(error.into()))
}

/// The plan whose journal was asked for. A deleted plan has left its journal, under its whole id.
pub(super) fn find_journal(wired: &Wired<'_>, plan: &PlanArgument) -> Result<PlanId, Failure> {
    let found = wired.wait(wired.lifecycle().find_plan(plan.0.clone()));
    let error = match found {
        Ok(plan) => return Ok(plan.identity.plan_id),
        Err(error) => error,
    };
    let missing = matches!(error, LifecycleError::Store(StoreError::NotFound { .. }));
    let whole = plan.0.as_str().len() == ID_LENGTH;
    if missing
        && whole
        && let Ok(id) = plan.0.as_str().parse::<PlanId>()
    {
        let look = wired
            .store()
            .read(move |unit| unit.head(StreamId::Plan(id)));
        if wired.wait(look)?.stream_seq > 0 {
            return Ok(id);
        }
    }
    Err(unknown(error.into()))
}

fn unknown(failure: Failure) -> Failure {
    match failure.exit {
        ExitCode::NotFound => failure.hint("agents plan list"),
        _ => failure,
    }
}

/// Asks before something is taken away. Where nobody can be asked, the command itself is the word.
pub(super) fn confirmed(
    question: &str,
    yes: bool,
    context: &Context<'_>,
    refused: &str,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    match confirm(question, context.environment) {
        Reply::Yes | Reply::Nobody => Ok(()),
        Reply::No => Err(Failure::new(ExitCode::Decision, refused)
            .because("the question was not answered with yes")
            .hint("repeat the command with --yes")),
    }
}

/// `local/shop, local/docs`.
pub(super) fn projects(plan: &Plan) -> String {
    let names: Vec<String> = plan
        .brief
        .projects
        .iter()
        .map(NamespacedName::to_string)
        .collect();
    names.join(", ")
}

/// `execute/processing`, in the colour of what it means.
pub(super) fn position(position: Position) -> Cell {
    let text = match position.waiting() {
        Some(waiting) => format!("{position} ({})", waiting_for(waiting)),
        None => position.to_string(),
    };
    Cell::new(text, tone(position.state()))
}

pub(super) fn state(state: State) -> Cell {
    Cell::new(state.as_str(), tone(state))
}

fn tone(state: State) -> Tone {
    match state {
        State::Queued => Tone::Normal,
        State::Processing => Tone::Strong,
        State::Complete | State::Applied => Tone::Good,
        State::Errored => Tone::Bad,
        State::Constrained => Tone::Doubtful,
        State::Cancelled | State::Unapplied => Tone::Faint,
    }
}

pub(super) fn waiting_for(waiting: Waiting) -> String {
    match waiting {
        Waiting::Slot => "waits for a free slot".to_owned(),
        Waiting::Approval { .. } => "waits for your approval".to_owned(),
        Waiting::Answer { .. } => "waits for your answer".to_owned(),
        Waiting::Budget => "waits for a larger budget".to_owned(),
        Waiting::Until { until } => format!("waits until {until}"),
    }
}

/// Where the plan stands, for programs.
pub(super) fn standing(plan: &Plan) -> serde_json::Map<String, Value> {
    let position = plan.position;
    let mut map = serde_json::Map::new();
    map.insert("plan_id".to_owned(), json!(plan.identity.plan_id));
    map.insert("name".to_owned(), json!(plan.name));
    map.insert("phase".to_owned(), json!(position.phase()));
    map.insert("state".to_owned(), json!(position.state()));
    map.insert("waiting".to_owned(), json!(position.waiting()));
    map.insert("action".to_owned(), json!(plan.brief.action_name));
    map.insert("project".to_owned(), json!(projects(plan)));
    map.insert("projects".to_owned(), json!(plan.brief.projects));
    map.insert("attempt".to_owned(), json!(plan.attempt));
    map
}

/// How long the plan has lived, or lived until it was finished.
pub(super) fn elapsed(plan: &Plan, now: Timestamp) -> Duration {
    let end = plan.timestamps.finished_at.unwrap_or(now);
    end.since(plan.timestamps.created_at)
}

/// `2h 05m`, `1m 09s`, `12s`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {seconds:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(69), "1m 09s");
        assert_eq!(shown(7_500), "2h 05m");
        assert_eq!(shown(90_000), "1d 01h");
    }
}
