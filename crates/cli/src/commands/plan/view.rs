//! Lookup and display of plans, shared by all verbs.

use cleveragents_api::plan::PlanSummary;
use cleveragents_app::plan::describe_waiting;
use cleveragents_domain::PlanState;

use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{Tone, ViewCell};

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

/// Returns for example `execute/processing`, coloured by its meaning.
pub(super) fn summary_cell(plan: &PlanSummary) -> ViewCell {
    let position = format!("{}/{}", plan.phase, plan.state);
    let text = match plan.waiting {
        Some(waiting) => format!("{position} ({})", describe_waiting(waiting)),
        None => position,
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
