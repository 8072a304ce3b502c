//! `agents plan errors`

use clap::Args;
use cleveragents_domain::{ErrorRecord, Event, EventBody};
use serde_json::{Value, json};

use super::events::follow;
use super::view::find;
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::output::{
    CommandAnswer, MessageLevel, OutputView, ReaderState, Tone, ViewCell, format_count,
};

/// Show a plan's errors and how to recover from them
///
/// Identical errors are counted, not repeated. With --follow, each error is written when it
/// happens, until the plan is finished.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan errors 4k2m9x0q
  agents plan errors 4k2m9x0q --follow
  agents plan errors 4k2m9x0q --format json")]
pub struct PlanErrorsArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Continue until the plan is finished
    #[arg(long)]
    follow: bool,
}

impl PlanErrorsArgs {
    pub fn output_mode(&self, format: Format) -> OutputMode {
        if self.follow && format.is_envelope() {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        if self.follow {
            let output = self.output_mode(context.format);
            follow(
                &app,
                &context.lines,
                (id, 0),
                |event| match parse_error_event(event) {
                    Some(error) if output == OutputMode::Events => {
                        context.lines.json(&data(&error))
                    }
                    Some(error) => context.lines.cells(&row(&error)),
                    None => Ok(ReaderState::Open),
                },
            )?;
        }
        let history = app.block_on(app.recovery().history(id))?;
        let view = if self.follow || history.is_empty() {
            OutputView::new()
        } else {
            view(&history)
        };
        let occurrences: u64 = history.iter().map(|error| error.occurrences).sum();
        let shown: Vec<Value> = history.iter().map(data).collect();
        let answer = json!({
            "plan_id": id,
            "name": plan.name,
            "phase": plan.position.phase(),
            "state": plan.position.state(),
            "errors": shown,
            "summary": {"total": history.len(), "occurrences": occurrences},
        });
        let number = i64::try_from(history.len()).unwrap_or(i64::MAX);
        let said = match number {
            0 => "no errors".to_owned(),
            _ => format!("{} listed", format_count(number, "error")),
        };
        let mut answer = CommandAnswer::new(answer, view).with_message(MessageLevel::Info, said);
        if let Some(newest) = history.iter().max_by_key(|error| error.at)
            && !plan.position.is_terminal()
        {
            for hint in &newest.hints {
                answer = answer.with_message(MessageLevel::Hint, hint.command.clone());
            }
        }
        Ok(answer)
    }
}

fn parse_error_event(event: &Event) -> Option<ErrorRecord> {
    match event.known_body()? {
        EventBody::ErrorRecorded(error) => Some(error.0),
        _ => None,
    }
}

/// Returns an error for JSON output.
pub(crate) fn data(error: &ErrorRecord) -> Value {
    let hints: Vec<Value> = error
        .hints
        .iter()
        .map(|hint| {
            json!({"action": hint.action, "message": hint.message, "cli_command": hint.command})
        })
        .collect();
    json!({
        "id": error.id,
        "sequence": error.sequence,
        "category": error.category,
        "message": error.message,
        "phase": error.phase,
        "step": error.step,
        "attempt": error.attempt,
        "cause_chain": error.cause_chain,
        "recovery": error.recovery,
        "recovery_hints": hints,
        "occurrences": error.occurrences,
        "at": error.at,
    })
}

fn row(error: &ErrorRecord) -> Vec<ViewCell> {
    let place = match error.step {
        Some(step) => format!("{} step {step}", error.phase),
        None => error.phase.to_string(),
    };
    vec![
        error.sequence.unwrap_or_default().to_string().into(),
        ViewCell::new(error.category.as_str(), Tone::Bad),
        place.into(),
        error.attempt.to_string().into(),
        format!("{}×", error.occurrences).into(),
        error.recovery.as_str().into(),
        error.message.clone().into(),
    ]
}

fn view(history: &[ErrorRecord]) -> OutputView {
    let headers = [
        "number", "category", "where", "attempt", "times", "recovery", "message",
    ];
    let mut view = OutputView::new().table("Errors", &headers, history.iter().map(row));
    for error in history.iter().filter(|error| !error.cause_chain.is_empty()) {
        let title = format!("Causes of {}", error.sequence.unwrap_or_default());
        let causes = error.cause_chain.iter().enumerate();
        let rows =
            causes.map(|(depth, cause)| (format!("{}", depth + 1), ViewCell::from(cause.clone())));
        view = view.panel(&title, rows);
    }
    view
}
