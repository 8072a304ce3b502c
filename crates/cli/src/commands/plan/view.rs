//! Lookup and display of plans, shared by all verbs.

use std::time::Duration;

use cleveragents_api::plan::PlanSummary;
use cleveragents_domain::id::{ID_LENGTH, PlanId};
use cleveragents_domain::{
    NamespacedName, Plan, PlanState, Position, StreamId, Timestamp, WaitReason,
};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;
use serde_json::{Value, json};

use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{Tone, ViewCell};

/// Finds the plan that the user named.
pub(crate) fn find(app: &AppContext<'_>, plan: &PlanArgument) -> Result<Plan, CommandFailure> {
    let found = app.block_on(app.lifecycle().find_plan(plan.0.clone()));
    found.map_err(|error| with_list_hint(error.into()))
}

/// Finds the plan whose journal to read. A deleted plan keeps its journal, under its full id.
pub(super) fn find_journal(
    app: &AppContext<'_>,
    plan: &PlanArgument,
) -> Result<PlanId, CommandFailure> {
    let found = app.block_on(app.lifecycle().find_plan(plan.0.clone()));
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
        let look = app.store().read(move |tx| tx.head(StreamId::Plan(id)));
        if app.block_on(look)?.stream_seq > 0 {
            return Ok(id);
        }
    }
    Err(with_list_hint(error.into()))
}

fn with_list_hint(failure: CommandFailure) -> CommandFailure {
    match failure.exit {
        ExitCode::NotFound => failure.hint("agents plan list"),
        _ => failure,
    }
}

/// Asks before something is deleted. Without a terminal, running the command counts as consent.
pub(super) fn confirm_or_fail(
    question: &str,
    yes: bool,
    context: &CommandContext<'_>,
    refused: &str,
) -> Result<(), CommandFailure> {
    if yes {
        return Ok(());
    }
    match confirm(question, context.environment) {
        Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
        Confirmation::No => Err(CommandFailure::new(ExitCode::Decision, refused)
            .because("not confirmed")
            .hint("repeat the command with --yes")),
    }
}

/// Returns for example `local/shop, local/docs`.
pub(super) fn projects(plan: &Plan) -> String {
    let names: Vec<String> = plan
        .brief
        .projects
        .iter()
        .map(NamespacedName::to_string)
        .collect();
    names.join(", ")
}

/// Returns for example `execute/processing`, coloured by its meaning.
pub(super) fn position_cell(position: Position) -> ViewCell {
    let text = match position.waiting() {
        Some(waiting) => format!("{position} ({})", describe_waiting(waiting)),
        None => position.to_string(),
    };
    ViewCell::new(text, tone(position.state()))
}

/// Returns for example `execute/processing`, coloured by its meaning.
pub(super) fn summary_cell(plan: &PlanSummary) -> ViewCell {
    let text = format!("{}/{}", plan.phase, plan.state);
    let text = match plan.waiting {
        Some(waiting) => format!("{text} ({})", describe_waiting(waiting)),
        None => text,
    };
    ViewCell::new(text, tone(plan.state))
}

pub(super) fn state_cell(state: PlanState) -> ViewCell {
    ViewCell::new(state.as_str(), tone(state))
}

fn tone(state: PlanState) -> Tone {
    match state {
        PlanState::Queued => Tone::Normal,
        PlanState::Processing => Tone::Strong,
        PlanState::Complete | PlanState::Applied => Tone::Good,
        PlanState::Errored => Tone::Bad,
        PlanState::Constrained => Tone::Doubtful,
        PlanState::Cancelled | PlanState::Unapplied => Tone::Faint,
    }
}

pub(super) fn describe_waiting(waiting: WaitReason) -> String {
    match waiting {
        WaitReason::Slot => "waits for a free slot".to_owned(),
        WaitReason::Approval { .. } => "waits for your approval".to_owned(),
        WaitReason::Answer { .. } => "waits for your answer".to_owned(),
        WaitReason::Budget => "waits for a larger budget".to_owned(),
        WaitReason::Until { until } => format!("waits until {until}"),
    }
}

/// Returns the plan's state for JSON output.
pub(super) fn plan_data(plan: &Plan) -> serde_json::Map<String, Value> {
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

/// Returns the time since the plan was created, until now or until it was finished.
pub(super) fn elapsed(plan: &Plan, now: Timestamp) -> Duration {
    let end = plan.timestamps.finished_at.unwrap_or(now);
    end.since(plan.timestamps.created_at)
}

/// Formats as `2h 05m`, `1m 09s` or `12s`.
pub(super) fn format_duration(span: Duration) -> String {
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
        let shown = |seconds| format_duration(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(69), "1m 09s");
        assert_eq!(shown(7_500), "2h 05m");
        assert_eq!(shown(90_000), "1d 01h");
    }
}
