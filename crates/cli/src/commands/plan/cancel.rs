//! `agents plan cancel`

use std::time::Duration;

use clap::Args;
use cleveragents_api::plan::PlanOwner;
use cleveragents_app::plan::continue_command;
use cleveragents_domain::{Plan, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::lifecycle::{CancelOutcome, PlanMoveOutcome};
use serde_json::{Value, json};

use super::abort_apply::abort_stopped_apply;
use super::view::{find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Cancel a plan
///
/// A plan that is not running is cancelled at once. Otherwise its process is asked to stop, and
/// this command waits until it has. The plan's work so far is kept. An apply that stopped half-way
/// is aborted and undone first. Cancelling a finished plan shows its final state.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan cancel 4k2m9x0q
  agents plan cancel 4k2m9x0q --reason 'wrong branch'
  agents plan cancel 4k2m9x0q --wait 0")]
pub struct PlanCancelArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The reason, for the record
    #[arg(
        short,
        long,
        value_name = "REASON",
        default_value = "cancelled by hand"
    )]
    reason: String,

    /// How many seconds to wait for the process that runs the plan
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

impl PlanCancelArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let (app, plan) = bootstrap.open_to_abandon(|app| find(app, &self.plan))?;
        let id = plan.identity.plan_id;
        let lifecycle = app.lifecycle();
        let reason = app.mask_secrets(&self.reason)?;
        abort_stopped_apply(&app, &plan)?;
        app.end_leftover_commands(id);
        match app.block_on(lifecycle.cancel(id, &reason, app.actor()))? {
            CancelOutcome::Done(PlanMoveOutcome::Moved(plan)) => {
                answer(&app, &plan, "Plan cancelled")
            }
            CancelOutcome::Done(PlanMoveOutcome::Unchanged(plan)) => unchanged_answer(&app, &plan),
            CancelOutcome::Requested(plan) => self.wait_for_owner(&app, &plan),
        }
    }

    /// Follows the plan's journal until its owner has stopped or the timeout expires.
    fn wait_for_owner(
        &self,
        app: &AppContext<'_>,
        plan: &Plan,
    ) -> Result<CommandAnswer, CommandFailure> {
        let id = plan.identity.plan_id;
        let lifecycle = app.lifecycle();
        let ended = async {
            // From the start, so that no event since the request is missed.
            let mut tail = Tail::of_stream(app.store().clone(), StreamId::Plan(id), 0);
            loop {
                let plan = lifecycle.plan(id).await?;
                if plan.position.is_terminal() {
                    return Ok::<Plan, CommandFailure>(plan);
                }
                tail.next().await?;
            }
        };
        let timeout = Duration::from_secs(self.wait);
        match app.block_on(async { tokio::time::timeout(timeout, ended).await }) {
            Ok(ended) => {
                let plan = ended?;
                match plan.position.state() {
                    cleveragents_domain::PlanState::Cancelled => {
                        answer(app, &plan, "Plan cancelled")
                    }
                    _ => unchanged_answer(app, &plan),
                }
            }
            Err(_) => {
                let owner = app.block_on(app.app().plan_owner(id))?;
                Err(not_stopped_failure(owner.as_ref(), plan))
            }
        }
    }
}

/// The owner was asked to stop and has not done so in time.
fn not_stopped_failure(owner: Option<&PlanOwner>, plan: &Plan) -> CommandFailure {
    let id = plan.identity.plan_id;
    let what = format!("plan {} was asked to stop and has not yet", plan.name);
    let failure = CommandFailure::new(ExitCode::Temporary, what)
        .kind("cancel_requested")
        .with("plan_id", json!(id))
        .with("phase", json!(plan.position.phase()))
        .with("state", json!(plan.position.state()))
        .with("pid", json!(owner.and_then(|it| it.pid)));
    let failure = match owner {
        None => failure.hint(format!("agents plan cancel {id}")),
        Some(owner) if !owner.responds => failure.because(format!(
            "{} runs it, does not respond and may be stopped",
            owner.describe()
        )),
        Some(owner) => failure.because(format!(
            "{} runs it and decides when it is safe to stop",
            owner.describe()
        )),
    };
    let command = owner.and_then(continue_command);
    command
        .into_iter()
        .fold(failure, CommandFailure::hint)
        .hint(format!("agents plan log {id} --follow"))
}

fn answer(
    app: &AppContext<'_>,
    plan: &Plan,
    message: &str,
) -> Result<CommandAnswer, CommandFailure> {
    let id = plan.identity.plan_id;
    let recovery = vec![format!(
        "agents plan use {} PROJECT",
        plan.brief.action_name
    )];
    let work = app.plan_work(id)?;
    let sandbox = (!work.sandboxes.is_empty()).then(|| {
        json!({
            "status": "preserved",
            "files_modified": work.paths,
            "checkpoints": work.checkpoints,
        })
    });
    let mut data = plan_data(plan);
    let more = json!({
        "reason": plan.error_message,
        "cancelled_at": plan.timestamps.finished_at,
        "sandbox": sandbox,
        "child_plans": { "completed": 0, "cancelled": 0, "artifacts_preserved": true },
        "recovery": recovery,
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let mut rows = vec![
        ("plan", ViewCell::new(id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", position_cell(plan.position)),
    ];
    if let Some(reason) = &plan.error_message {
        rows.push(("reason", reason.clone().into()));
    }
    let view = OutputView::new().panel("Plan", rows);
    Ok(CommandAnswer::new(Value::Object(data), view).with_message(MessageLevel::Info, message))
}

/// Returns the answer for a plan that can no longer be cancelled.
fn unchanged_answer(app: &AppContext<'_>, plan: &Plan) -> Result<CommandAnswer, CommandFailure> {
    let text = format!("nothing to cancel: the plan is at {}", plan.position);
    answer(app, plan, &text)
}
