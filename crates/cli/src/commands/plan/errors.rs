//! `agents plan errors`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::PlanErrors;
use cleveragents_api::plan::errors::PlanError;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_app::plan::plan_error;
use cleveragents_domain::EventBody;
use cleveragents_domain::id::PlanId;

use super::events::follow;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::next_step;
use crate::output::{CommandAnswer, OutputView, ReaderState, Tone, ViewCell};
use crate::plan_lookup::find_plan;

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
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
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
        let reply = if self.follow {
            let bootstrap = context.bootstrap()?;
            let app = bootstrap.open_for_requests(RequestKind::Read)?;
            let id = find_plan(&app, &self.plan)?.plan_id;
            self.write_until_finished(&app, id, context)?;
            app.call(PlanErrors { plan: id.into() })?
        } else {
            context.call_for_plan(&self.plan, |plan| PlanErrors { plan })?
        };
        CommandAnswer::from_reply(reply, |history| {
            if self.follow || history.errors.is_empty() {
                OutputView::new()
            } else {
                view(&history.errors)
            }
        })
    }

    /// Writes each error when it happens, until the plan is finished.
    fn write_until_finished(
        &self,
        app: &AppContext<'_>,
        id: PlanId,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        let output = self.output_mode(context.format);
        let show = |event: &JournalEvent| match parse_error_event(event) {
            Some(error) if output == OutputMode::Events => context.lines.json(&error),
            Some(error) => context.lines.cells(&row(&error)),
            None => Ok(ReaderState::Open),
        };
        follow(app, &context.lines, id, 0, show)?;
        Ok(())
    }
}

fn parse_error_event(event: &JournalEvent) -> Option<PlanError> {
    match event.known_body()? {
        EventBody::ErrorRecorded(error) => Some(plan_error(error.0, None, next_step::render)),
        _ => None,
    }
}

fn row(error: &PlanError) -> Vec<ViewCell> {
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

fn view(history: &[PlanError]) -> OutputView {
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
