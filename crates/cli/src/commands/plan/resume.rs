//! `agents plan resume`

use clap::{Args, value_parser};
use cleveragents_api::RequestKind;
use cleveragents_api::plan::resume::{NextMove, ResumePreviewAnswer};
use cleveragents_api::plan::{PlanPreviewApply, PlanPreviewResume, PlanResume};

use super::execute::drive_view;
use super::progress::{PlanProgress, run_work};
use super::question::answer_questions;
use super::review::{Review, is_executed};
use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument, parse_dollars};
use crate::arguments::Format;
use crate::commands::{CommandContext, OutputMode};
use crate::confirmation::is_interactive;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell, format_count};
use crate::plan_lookup::find_plan;

/// Resume a plan
///
/// Continues a plan that was interrupted, failed or waited from its last confirmed call, as far as
/// its automation profile and your approvals allow. Confirmed calls are not repeated, and stored
/// answers of models are used again. This command approves nothing: if the plan needs your approval
/// it stops with exit code 5; approve with `agents plan execute`. What you approved before counts: a
/// resumed `agents run` goes on to its diff and question, with `--yes` to the applied change.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan resume 4k2m9x0q
  agents plan resume 4k2m9x0q --dry-run
  agents plan resume 4k2m9x0q --max-usd 2.50
  agents plan resume 4k2m9x0q --events")]
pub struct PlanResumeArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Only show what would run next
    #[arg(long)]
    dry_run: bool,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long, conflicts_with = "dry_run")]
    events: bool,

    #[command(flatten)]
    budget: BudgetArgs,
}

/// Another budget for a plan that has used up its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Another budget")]
struct BudgetArgs {
    /// Maximum cost of models over the whole plan, in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars, conflicts_with = "dry_run")]
    max_usd: Option<f64>,

    /// Maximum number of tokens for models over the whole plan
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    max_tokens: Option<u64>,

    /// Maximum total run time of the plan, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    max_wall: Option<u64>,
}

impl PlanResumeArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        if self.dry_run {
            let reply = context.call_for_plan(&self.plan, |plan| PlanPreviewResume { plan })?;
            return CommandAnswer::from_reply(reply, preview_view);
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Work)?;
        let plan = find_plan(&app, &self.plan)?;
        let id = plan.plan_id;
        let request = PlanResume {
            plan: id.into(),
            max_usd: self.budget.max_usd,
            max_tokens: self.budget.max_tokens,
            max_wall: self.budget.max_wall,
        };
        let progress = PlanProgress::new(self.events, context);
        progress.announce(&plan);
        let reply = run_work(&app, &progress, id, request)?;
        let reply = answer_questions(&app, &progress, context, reply)?;
        if !is_executed(&reply.answer) || !is_interactive(context.environment) {
            return CommandAnswer::from_reply(reply, drive_view);
        }
        let preview = app.call(PlanPreviewApply { plan: id.into() })?.answer;
        // Only a plan that `run` started ends with a question.
        if !preview.is_run {
            return CommandAnswer::from_reply(reply, drive_view);
        }
        let review = Review {
            app: &app,
            progress: &progress,
            context,
            plan: id,
            question: format!("Apply plan {}?", preview.plan.name),
            to: preview.destination,
            typed_to: None,
        };
        CommandAnswer::from_reply(review.finish(reply)?, drive_view)
    }
}

fn preview_view(preview: &ResumePreviewAnswer) -> OutputView {
    let (plan, outlook) = (&preview.plan, &preview.outlook);
    let count =
        |number: usize, what: &str| format_count(i64::try_from(number).unwrap_or(i64::MAX), what);
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("state", summary_cell(plan)),
        ("next", describe_next(preview).into()),
        (
            "not repeated",
            count(outlook.confirmed_calls, "tool call").into(),
        ),
        (
            "not asked again",
            count(outlook.stored_answers, "answer").into(),
        ),
    ];
    if !outlook.interrupted_calls.is_empty() {
        rows.push(("undone", outlook.interrupted_calls.join(", ").into()));
    }
    if outlook.interrupted_models > 0 {
        let text = count(outlook.interrupted_models, "question");
        rows.push(("asked again", text.into()));
    }
    OutputView::new().panel("Plan", rows)
}

/// Describes the next step and its preconditions.
fn describe_next(preview: &ResumePreviewAnswer) -> String {
    let outlook = &preview.outlook;
    let next = match outlook.next {
        NextMove::Strategize => "make a strategy".to_owned(),
        NextMove::Approve => "wait for approval of the strategy".to_owned(),
        NextMove::Execute => match outlook.step {
            Some(step) => format!("run step {step} of {}", outlook.steps),
            None => "run the strategy".to_owned(),
        },
        NextMove::Apply => "apply the changes, with your approval".to_owned(),
        NextMove::ApplyApproved => "apply the changes".to_owned(),
        NextMove::Nothing => "nothing: the plan is finished".to_owned(),
    };
    match preview.plan.waiting {
        Some(waiting) => format!("waiting for {}; then {next}", waiting.kind()),
        None => next,
    }
}
