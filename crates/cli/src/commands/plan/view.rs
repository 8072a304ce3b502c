//! Lookup and display of plans, shared by all verbs.

use cleveragents_api::plan::PlanSummary;
use cleveragents_app::plan::describe_waiting;
use cleveragents_domain::PlanState;

use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm, confirm_unless_interrupted};
use crate::failure::{CommandFailure, ExitCode, FailureKind};
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
        Confirmation::No => Err(declined_failure(refused)),
    }
}

/// Asks before the work of a command that handles Ctrl-C itself: Ctrl-C ends the question at once.
/// Without a terminal, running the command counts as consent.
pub(super) fn confirm_before_work(
    question: &str,
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
    refused: &str,
) -> Result<(), CommandFailure> {
    let answer = confirm_unless_interrupted(question, context.environment);
    match app.block_on(answer) {
        Some(Confirmation::Yes | Confirmation::NoTerminal) => Ok(()),
        Some(Confirmation::No) => Err(declined_failure(refused)),
        None => {
            let what = format!("interrupted: {refused}");
            let failure = CommandFailure::new(ExitCode::Interrupted, what);
            Err(failure.kind(FailureKind::Interrupted))
        }
    }
}

fn declined_failure(refused: &str) -> CommandFailure {
    CommandFailure::new(ExitCode::Decision, refused)
        .because("not confirmed")
        .hint("repeat the command with --yes")
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
