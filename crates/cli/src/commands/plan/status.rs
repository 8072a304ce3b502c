//! `agents plan status`

use clap::Args;
use cleveragents_api::plan::PlanStatus;
use cleveragents_api::plan::status::{PhaseStatus, PlanStatusAnswer, PlanStop};
use cleveragents_domain::PlanState;

use super::cost::cost_rows;
use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Show the state of a plan
///
/// A failed plan can be shown like any other: see `state` and `error`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan status 4k2m9x0q
  agents plan status local/fix-lint-4k2m9x0q --format json")]
pub struct PlanStatusArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,
}

impl PlanStatusArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanStatus { plan })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(status: &PlanStatusAnswer) -> OutputView {
    let mut view = OutputView::new().panel("Plan", facts(status));
    view = view.table("Progress", &["phase", "status"], progress_rows(status));
    view = view.panel("Timing", timing(status));
    if !status.execution.sandboxes.is_empty() {
        view = view.panel("Execution", execution(status));
    }
    let cost = cost_rows(&status.cost);
    if !cost.is_empty() {
        view = view.panel("Cost", cost);
    }
    match &status.error {
        Some(stop) => view.panel("Why it stopped", stop_rows(stop)),
        None => view,
    }
}

fn facts(status: &PlanStatusAnswer) -> Vec<(&'static str, ViewCell)> {
    let plan = &status.plan;
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
        ("task", status.description.clone().into()),
        ("action", plan.action.to_string().into()),
        ("projects", plan.project.clone().into()),
        ("profile", status.automation.to_string().into()),
        ("attempt", plan.attempt.to_string().into()),
    ];
    if status.reversions > 0 {
        rows.push(("reversions", status.reversions.to_string().into()));
    }
    rows.extend(owner_cell(status).map(|cell| ("run by", cell)));
    rows
}

/// Names the process that runs the plan. Says so if the plan was started but none runs it.
fn owner_cell(status: &PlanStatusAnswer) -> Option<ViewCell> {
    let Some(owner) = &status.owner else {
        let is_abandoned = status.plan.state == PlanState::Processing;
        return is_abandoned.then(|| ViewCell::new("not running", Tone::Doubtful));
    };
    let text = format!("{} since {}", owner.describe(), owner.since);
    Some(if owner.responds {
        text.into()
    } else {
        let text = format!("{text}; it does not respond and may be stopped");
        ViewCell::new(text, Tone::Doubtful)
    })
}

fn progress_rows(status: &PlanStatusAnswer) -> Vec<Vec<ViewCell>> {
    let cell = |status| match status {
        PhaseStatus::Done => ViewCell::new("done", Tone::Good),
        PhaseStatus::Running => ViewCell::new("running", Tone::Strong),
        PhaseStatus::Stopped => ViewCell::new("stopped", Tone::Bad),
        PhaseStatus::Queued => ViewCell::new("queued", Tone::Faint),
    };
    let rows = status.progress.iter();
    rows.map(|it| vec![it.step.as_str().into(), cell(it.status)])
        .collect()
}

fn timing(status: &PlanStatusAnswer) -> Vec<(&'static str, ViewCell)> {
    let times = &status.timing;
    let mut rows = vec![("created", ViewCell::time(times.created_at, Tone::Normal))];
    if let Some(started) = times.started {
        rows.push(("started", ViewCell::time(started, Tone::Normal)));
    }
    if let Some(finished) = times.finished_at {
        rows.push(("finished", ViewCell::time(finished, Tone::Normal)));
    }
    rows.push(("elapsed", times.elapsed.clone().into()));
    rows
}

fn execution(status: &PlanStatusAnswer) -> Vec<(&'static str, ViewCell)> {
    let work = &status.execution;
    let states: Vec<&str> = work.sandboxes.iter().map(|it| it.status.as_str()).collect();
    vec![
        ("sandbox", states.join(", ").into()),
        ("tool calls", work.tool_calls.to_string().into()),
        ("files modified", work.files_modified.to_string().into()),
        ("checkpoints", work.checkpoints.to_string().into()),
    ]
}

fn stop_rows(stop: &PlanStop) -> Vec<(&'static str, ViewCell)> {
    let mut rows = vec![("reason", ViewCell::new(stop.message.clone(), Tone::Bad))];
    if let Some(category) = stop.category {
        rows.push(("category", category.as_str().into()));
    }
    if let Some(recovery) = stop.recovery {
        rows.push(("recovery", recovery.as_str().into()));
    }
    if let Some(step) = stop.step {
        rows.push(("step", step.to_string().into()));
    }
    rows
}
