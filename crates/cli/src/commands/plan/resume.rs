//! `agents plan resume`

use clap::{Args, value_parser};
use cleveragents_domain::{Budget, WaitReason};
use cleveragents_engine::execution::{NextMove, ResumePreview};
use serde_json::{Value, json};

use super::execute::conclude;
use super::progress::{PlanProgress, run_with_progress};
use super::view::{find, plan_data, position_cell};
use crate::argument_types::{PlanArgument, parse_dollars};
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// Resume a plan
///
/// Continues a plan that was interrupted, failed or waited from its last confirmed call, as far as
/// its automation profile and your approvals allow. Confirmed calls are not repeated, and stored
/// answers of models are used again. This command approves nothing: if the plan needs your approval
/// it stops with exit code 5; approve with `agents plan execute`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan resume 4k2m9x0q
  agents plan resume 4k2m9x0q --dry-run
  agents plan resume 4k2m9x0q --max-usd 2.50
  agents plan resume 4k2m9x0q --events")]
pub struct PlanResumeArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
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
    /// What models may cost over the whole plan, in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars, conflicts_with = "dry_run")]
    max_usd: Option<f64>,

    /// How many tokens models may use over the whole plan
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    max_tokens: Option<u64>,

    /// How long the plan may run in total, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..), conflicts_with = "dry_run")]
    max_wall: Option<u64>,
}

impl BudgetArgs {
    fn to_budget(&self) -> Option<Budget> {
        let wanted = Budget {
            usd: self.max_usd,
            tokens: self.max_tokens,
            wall: self.max_wall,
        };
        (wanted != Budget::default()).then_some(wanted)
    }
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
        let bootstrap = context.bootstrap()?;
        let app = if self.dry_run {
            bootstrap.open_to_read()?
        } else {
            bootstrap.open()?
        };
        let id = find(&app, &self.plan)?.identity.plan_id;
        let executor = app.executor()?;
        if self.dry_run {
            let outlook = app.block_on(executor.preview_resume(id))?;
            return Ok(outlook_answer(&app, &outlook));
        }
        if let Some(wanted) = self.budget.to_budget() {
            app.block_on(app.lifecycle().change_budget(id, wanted, app.actor()))?;
        }
        let progress = PlanProgress::new(self.events, context);
        let waits = |running: usize| progress.show_waiting_for_slot(running);
        let work = executor.resume(id, app.actor(), &waits);
        let executed = run_with_progress(&app, &progress, id, work)?;
        conclude(&app, &progress, id, executed)
    }
}

fn outlook_answer(app: &AppContext<'_>, outlook: &ResumePreview) -> CommandAnswer {
    let plan = &outlook.plan;
    let id = plan.identity.plan_id;
    let mut data = plan_data(plan);
    let more = json!({
        "dry_run": true,
        "outlook": outlook,
        "owner": outlook.holder.as_ref().map(|it| it.owner),
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let count =
        |number: usize, what: &str| format_count(i64::try_from(number).unwrap_or(i64::MAX), what);
    let mut rows = vec![
        ("plan", ViewCell::new(id.short(), Tone::Strong)),
        ("state", position_cell(plan.position)),
        ("next", describe_next(outlook).into()),
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
    let answer = CommandAnswer::new(Value::Object(data), OutputView::new().panel("Plan", rows));
    let answer = match &outlook.holder {
        Some(holder) if holder.owner != app.owner() => answer.with_message(
            MessageLevel::Info,
            format!("already running: {}", holder.owner),
        ),
        _ => answer,
    };
    with_hint(answer, outlook)
}

/// Describes the next step and its preconditions.
fn describe_next(outlook: &ResumePreview) -> String {
    let next = match outlook.next {
        NextMove::Strategize => "make a strategy".to_owned(),
        NextMove::Approve => "wait for approval of the strategy".to_owned(),
        NextMove::Execute => match outlook.step {
            Some(step) => format!("run step {step} of {}", outlook.steps),
            None => "run the strategy".to_owned(),
        },
        NextMove::Apply => "apply the changes, with your approval".to_owned(),
        NextMove::Nothing => "nothing: the plan is finished".to_owned(),
    };
    match outlook.plan.position.waiting() {
        Some(waiting) => format!("waiting for {}; then {next}", waiting.kind()),
        None => next,
    }
}

fn with_hint(answer: CommandAnswer, outlook: &ResumePreview) -> CommandAnswer {
    let plan = &outlook.plan;
    let id = plan.identity.plan_id;
    let answer = match plan.position.waiting() {
        Some(WaitReason::Answer { .. }) => {
            answer.with_message(MessageLevel::Hint, format!("agents plan prompt {id} \"…\""))
        }
        Some(WaitReason::Approval { .. }) => {
            return answer.with_message(MessageLevel::Hint, format!("agents plan execute {id}"));
        }
        _ => answer,
    };
    match outlook.next {
        NextMove::Nothing => answer,
        NextMove::Apply => {
            answer.with_message(MessageLevel::Hint, format!("agents plan apply {id}"))
        }
        NextMove::Approve => {
            answer.with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
        }
        _ => answer.with_message(MessageLevel::Hint, format!("agents plan resume {id}")),
    }
}
