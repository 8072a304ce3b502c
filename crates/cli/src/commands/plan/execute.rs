//! `agents plan execute`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, PointOfNoReturn, RecoveryHint, WaitReason};
use cleveragents_engine::execution::{
    AutoApply, ExecuteOutcome, ExecutionError, Executor, QueueOutcome,
};
use cleveragents_ports::StopReason;
use cleveragents_ports::targets::Destination;
use serde_json::{Value, json};

use super::apply::outcome_answer;
use super::progress::{PlanProgress, run_with_progress, sandbox_data, sandbox_rows};
use super::result_warnings::{sandbox_warnings, with_warnings};
use super::view::{find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};
use cleveragents_app::failure::interrupted_failure;

/// Run a plan until it needs your approval
///
/// Runs Strategize, then Execute if the plan's automation profile allows it; otherwise this stops
/// with exit code 5, and running the command again approves the strategy. All work is done in
/// sandboxes: your files do not change before the plan is applied. Work that was confirmed before a
/// crash is not repeated.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan execute 4k2m9x0q
  agents plan execute 4k2m9x0q --events
  agents plan execute 4k2m9x0q --detach
  agents plan execute 4k2m9x0q --format json")]
pub struct PlanExecuteArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Do not wait: queue the plan for `agents plan resume`
    #[arg(long, conflicts_with = "events")]
    detach: bool,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long)]
    events: bool,
}

impl PlanExecuteArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        let executor = app.executor()?;
        if self.detach {
            return detach(&app, &executor, &plan);
        }
        let progress = PlanProgress::new(self.events, context);
        let waits = |running: usize| progress.show_waiting_for_slot(running);
        let work = executor.execute(id, app.actor(), &waits);
        let executed = run_with_progress(&app, &progress, id, work)?;
        conclude(&app, &progress, id, executed)
    }
}

/// Records the user's approval and leaves the plan queued, without running it.
fn detach(
    app: &AppContext<'_>,
    executor: &Executor,
    plan: &Plan,
) -> Result<CommandAnswer, CommandFailure> {
    let id = plan.identity.plan_id;
    if let Some(WaitReason::Approval { .. }) = plan.position.waiting() {
        let what = "a tool call waits for your approval, which cannot be given with --detach";
        return Err(CommandFailure::new(ExitCode::Conflict, what)
            .kind("approval")
            .hint(format!("agents plan execute {id}")));
    }
    let outcome = app.block_on(executor.enqueue(id, app.actor()))?;
    let plan = match &outcome {
        QueueOutcome::Queued(plan)
        | QueueOutcome::Unapproved(plan)
        | QueueOutcome::Unchanged(plan) => plan,
    };
    let answer = plan_answer(app, plan)?;
    Ok(match &outcome {
        QueueOutcome::Queued(_) => answer
            .with_message(MessageLevel::Info, "Queued")
            .with_message(MessageLevel::Hint, format!("agents plan resume {id}")),
        QueueOutcome::Unapproved(_) => answer
            .with_message(
                MessageLevel::Info,
                "Strategy ready: waiting for your approval",
            )
            .with_message(MessageLevel::Hint, format!("agents plan tree {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            .with_exit_code(ExitCode::Decision),
        QueueOutcome::Unchanged(plan) => {
            add_messages(answer, &ExecuteOutcome::Unchanged(plan.clone()), "")
        }
    })
}

/// Returns the answer for an execution; applies the plan first if its profile says so.
pub(super) fn conclude(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    id: PlanId,
    executed: Result<ExecuteOutcome, ExecutionError>,
) -> Result<CommandAnswer, CommandFailure> {
    let executed = executed.map_err(|error| stopped_failure(error, id))?;
    if let ExecuteOutcome::Complete {
        auto_apply: AutoApply::Yes,
        ..
    } = &executed
    {
        app.check_not_interrupted(id)?;
        let service = app.apply_service()?;
        let request = app.apply_request(id, Destination::Current);
        let applied = run_with_progress(app, progress, id, service.apply(&request))??;
        let warnings = sandbox_warnings(&app.plan_work(id)?.sandboxes);
        return Ok(with_warnings(outcome_answer(app, &applied)?, warnings));
    }
    answer(app, &executed, "")
}

/// Converts the error of an execution; an interrupted one can be resumed.
pub(crate) fn stopped_failure(error: ExecutionError, id: PlanId) -> CommandFailure {
    match error {
        ExecutionError::Stopped(StopReason::Interrupted) => interrupted_failure(id),
        other => other.into(),
    }
}

/// Returns the answer for an execution. `to` is the `--to` argument for hints; empty for the
/// default.
pub(crate) fn answer(
    app: &AppContext<'_>,
    executed: &ExecuteOutcome,
    to: &str,
) -> Result<CommandAnswer, CommandFailure> {
    let answer = plan_answer(app, executed.plan())?;
    if let ExecuteOutcome::Failed { plan, reason } = executed
        && let Some(error) = app.block_on(app.app().newest_error(plan))?
        && let Some(hints) = error.own_hints()
    {
        // Going on from here would end in the same error.
        let answer = answer.with_message(MessageLevel::Error, reason.clone());
        let add = |answer: CommandAnswer, hint: &RecoveryHint| {
            answer.with_message(MessageLevel::Hint, hint.command.clone())
        };
        return Ok(hints
            .iter()
            .fold(answer, add)
            .with_exit_code(ExitCode::Error));
    }
    Ok(add_messages(answer, executed, to))
}

/// Returns the answer with the plan's state and recorded work.
fn plan_answer(app: &AppContext<'_>, plan: &Plan) -> Result<CommandAnswer, CommandFailure> {
    let id = plan.identity.plan_id;
    let work = app.plan_work(id)?;
    let mut data = plan_data(plan);
    let more = json!({
        "sandbox": sandbox_data(&work.sandboxes).first(),
        "sandboxes": sandbox_data(&work.sandboxes),
        "started": plan.timestamps.execute_started_at.or(plan.timestamps.strategize_started_at),
        "worker": app.owner(),
        "strategy_summary": {
            "hash": work.strategy.as_ref().map(|it| &it.hash),
            "summary": work.strategy.as_ref().map(|it| &it.strategy.summary),
            "steps": work.strategy.as_ref().map(|it| &it.strategy.steps),
            "approved_by": work.strategy.as_ref().and_then(|it| it.approved_by.as_ref()),
            "decisions": work.decisions,
            "invariants": work.invariants,
            "planned_child_plans": 0,
        },
        "progress": progress_data(plan, &work),
        "tool_calls": work.tool_calls,
        "changes": work.changes,
        "validation": work.validation,
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let mut rows = vec![
        ("plan", ViewCell::new(id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", position_cell(plan.position)),
        ("tool calls", work.tool_calls.to_string().into()),
        ("changes", work.changes.to_string().into()),
    ];
    if let Some(strategy) = &work.strategy {
        rows.insert(3, ("strategy", strategy.strategy.summary.clone().into()));
    }
    let mut view = OutputView::new().panel("Plan", rows);
    if !work.sandboxes.is_empty() {
        let headers = ["resource", "sandbox", "state"];
        view = view.table("Sandboxes", &headers, sandbox_rows(&work.sandboxes));
    }
    let answer = CommandAnswer::new(Value::Object(data), view);
    Ok(with_warnings(answer, sandbox_warnings(&work.sandboxes)))
}

/// Returns the progress of each part of the work.
fn progress_data(plan: &Plan, work: &crate::bootstrap::PlanWork) -> Vec<Value> {
    use cleveragents_domain::{Phase, PlanState};
    let at = plan.position;
    let executed = at.has_passed(Phase::Execute)
        || (at.phase() == Phase::Execute && at.state() == PlanState::Complete);
    let status = |done: bool, begun: bool| match (done, begun) {
        (true, _) => "done",
        (false, true) => "stopped",
        (false, false) => "queued",
    };
    let labels = [
        ("Collect context", work.strategy.is_some(), true),
        ("Run tools", executed, work.tool_calls > 0),
        ("Build changeset", executed, work.changes > 0),
        ("Validate", executed, work.validation.is_some()),
    ];
    let label = |(label, done, begun): &(&str, bool, bool)| json!({ "label": label, "status": status(*done, *begun) });
    labels.iter().map(label).collect()
}

/// Adds messages and the exit code.
fn add_messages(answer: CommandAnswer, executed: &ExecuteOutcome, to: &str) -> CommandAnswer {
    let id = executed.plan().identity.plan_id;
    match executed {
        ExecuteOutcome::Unchanged(plan) => add_unchanged_messages(answer, plan, to),
        ExecuteOutcome::NeedsApproval { decision, .. } => answer
            .with_message(MessageLevel::Info, "Strategy ready")
            .with_message(MessageLevel::Info, decision.explanation.clone())
            .with_message(MessageLevel::Hint, format!("agents plan tree {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            .with_exit_code(ExitCode::Decision),
        ExecuteOutcome::Waiting {
            waiting, reason, ..
        } => add_waiting_messages(
            answer.with_message(MessageLevel::Info, reason.clone()),
            *waiting,
            id,
        ),
        ExecuteOutcome::LimitReached { reason, .. } => answer
            .with_message(MessageLevel::Error, reason.clone())
            .with_message(MessageLevel::Hint, format!("agents plan errors {id}"))
            .with_exit_code(ExitCode::Limit),
        ExecuteOutcome::Complete {
            auto_apply: applies,
            ..
        } => {
            let answer = answer.with_message(MessageLevel::Info, "Executed");
            let answer = match applies {
                AutoApply::No(reason) => answer.with_message(MessageLevel::Info, reason.clone()),
                AutoApply::Yes => answer,
            };
            answer
                .with_message(MessageLevel::Hint, format!("agents plan diff {id}"))
                .with_message(MessageLevel::Hint, format!("agents plan apply {id}{to}"))
        }
        ExecuteOutcome::Constrained { reason, .. } => answer
            .with_message(
                MessageLevel::Error,
                format!("Required validations failed: {reason}"),
            )
            .with_message(MessageLevel::Hint, format!("agents plan diff {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            .with_exit_code(ExitCode::NotDone),
        ExecuteOutcome::Failed { reason, .. } => answer
            .with_message(MessageLevel::Error, reason.clone())
            .with_message(MessageLevel::Hint, format!("agents plan errors {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            .with_exit_code(ExitCode::Error),
        ExecuteOutcome::Cancelled(_) => answer
            .with_message(MessageLevel::Error, "the plan was cancelled while it ran")
            .with_exit_code(ExitCode::Conflict),
    }
}

fn add_unchanged_messages(answer: CommandAnswer, plan: &Plan, to: &str) -> CommandAnswer {
    let id = plan.identity.plan_id;
    if is_apply_unfinished(plan) {
        let what = "the apply is unfinished: files of it are written and not committed";
        let settle = format!("agents plan apply {id} --mark-applied");
        return answer
            .with_message(MessageLevel::Error, what)
            .with_message(MessageLevel::Hint, format!("agents plan status {id}"))
            .with_message(MessageLevel::Hint, settle)
            .with_exit_code(ExitCode::Conflict);
    }
    let what = format!("Nothing to run: the plan is at {}", plan.position);
    answer
        .with_message(MessageLevel::Info, what)
        .with_message(MessageLevel::Hint, next_command(plan, to))
}

/// Adds messages about what a waiting plan waits for.
fn add_waiting_messages(answer: CommandAnswer, waiting: WaitReason, id: PlanId) -> CommandAnswer {
    match waiting {
        WaitReason::Approval { .. } | WaitReason::Slot => answer
            .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            .with_message(MessageLevel::Hint, format!("agents plan checkpoints {id}"))
            .with_exit_code(ExitCode::Decision),
        WaitReason::Answer { .. } => answer
            .with_message(MessageLevel::Hint, format!("agents plan prompt {id} \"…\""))
            .with_message(MessageLevel::Hint, format!("agents plan resume {id}"))
            .with_exit_code(ExitCode::Decision),
        WaitReason::Budget => answer
            .with_message(MessageLevel::Hint, format!("agents plan errors {id}"))
            .with_message(
                MessageLevel::Hint,
                format!("agents plan resume {id} --max-usd|--max-tokens|--max-wall …"),
            )
            .with_exit_code(ExitCode::Limit),
        WaitReason::Until { until } => answer
            .with_message(MessageLevel::Info, format!("it can continue at {until}"))
            .with_message(MessageLevel::Hint, format!("agents plan resume {id}"))
            .with_exit_code(ExitCode::Temporary),
    }
}

/// Whether an apply stopped after its decision, with its files partly written.
fn is_apply_unfinished(plan: &Plan) -> bool {
    let at = plan.position;
    !at.is_terminal() && at.point_of_no_return() == PointOfNoReturn::Passed
}

fn next_command(plan: &Plan, to: &str) -> String {
    let id = plan.identity.plan_id;
    if plan.position.is_terminal() {
        format!("agents plan status {id}")
    } else {
        format!("agents plan apply {id}{to}")
    }
}
