//! `agents plan cancel`

use std::time::Duration;

use clap::Args;
use cleveragents_domain::{Plan, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::lifecycle::{Cancelled, Moved};
use serde_json::{Value, json};

use super::aborting::abort_stopped_apply;
use super::shown::{find, position, standing};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// Cancel a plan
///
/// A plan that nobody runs is cancelled at once. The process that runs one is asked to stop, and
/// this command waits until it has. What the plan made so far is kept. An apply that stopped half-way
/// is aborted first: what it wrote is taken back. Cancelling a finished plan says how it ended.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan cancel 4k2m9x0q
  agents plan cancel 4k2m9x0q --reason 'wrong branch'
  agents plan cancel 4k2m9x0q --wait 0")]
pub struct Cancel {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Why, for the record
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

impl Cancel {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let (wired, plan) = wiring.open_to_abandon(|wired| find(wired, &self.plan))?;
        let id = plan.identity.plan_id;
        let lifecycle = wired.lifecycle();
        let reason = wired.hide(&self.reason)?;
        abort_stopped_apply(&wired, &plan)?;
        wired.end_left_over(id);
        match wired.wait(lifecycle.cancel(id, &reason, wired.actor()))? {
            Cancelled::Done(Moved::Moved(plan)) => answer(&wired, &plan, "Plan cancelled"),
            Cancelled::Done(Moved::Stands(plan)) => stands(&wired, &plan),
            Cancelled::Requested(plan) => self.wait_for_owner(&wired, &plan),
        }
    }

    /// Follows the plan's journal until its owner has stopped, or the time is over.
    fn wait_for_owner(&self, wired: &Wired<'_>, plan: &Plan) -> Result<Answer, Failure> {
        let id = plan.identity.plan_id;
        let lifecycle = wired.lifecycle();
        let ended = async {
            let mut tail = Tail::of_stream(wired.store().clone(), StreamId::Plan(id), 0);
            loop {
                let plan = lifecycle.plan(id).await?;
                if plan.position.is_terminal() {
                    return Ok::<Plan, Failure>(plan);
                }
                tail.next().await?;
            }
        };
        let patience = Duration::from_secs(self.wait);
        match wired.wait(async { tokio::time::timeout(patience, ended).await }) {
            Ok(ended) => {
                let plan = ended?;
                match plan.position.state() {
                    cleveragents_domain::State::Cancelled => answer(wired, &plan, "Plan cancelled"),
                    _ => stands(wired, &plan),
                }
            }
            Err(_) => Err(Failure::new(
                ExitCode::Temporary,
                format!("plan {} was asked to stop and has not yet", plan.name),
            )
            .kind("cancel_requested")
            .because("the process that runs it decides when it is safe to stop")
            .hint(format!("agents plan log {id} --follow"))
            .with("plan_id", json!(id))
            .with("phase", json!(plan.position.phase()))
            .with("state", json!(plan.position.state()))),
        }
    }
}

fn answer(wired: &Wired<'_>, plan: &Plan, said: &str) -> Result<Answer, Failure> {
    let id = plan.identity.plan_id;
    let recovery = vec![format!(
        "agents plan use {} PROJECT",
        plan.brief.action_name
    )];
    let work = wired.work_of(id)?;
    let sandbox = (!work.sandboxes.is_empty()).then(|| {
        json!({
            "status": "preserved",
            "files_modified": work.paths,
            "checkpoints": work.checkpoints,
        })
    });
    let mut data = standing(plan);
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
        ("plan", Cell::new(id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("stands at", position(plan.position)),
    ];
    if let Some(reason) = &plan.error_message {
        rows.push(("reason", reason.clone().into()));
    }
    let view = View::new().panel("Plan", rows);
    Ok(Answer::new(Value::Object(data), view).say(Level::Info, said))
}

/// It could no longer be cancelled; this is how it stands.
fn stands(wired: &Wired<'_>, plan: &Plan) -> Result<Answer, Failure> {
    let text = format!("nothing to cancel: the plan is at {}", plan.position);
    answer(wired, plan, &text)
}
