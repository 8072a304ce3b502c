//! `agents plan delete`

use clap::Args;
use cleveragents_api::plan::{PlanDelete, PlanSummary};
use cleveragents_api::{NextStep, RequestKind};

use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::plan_lookup::find_plan;

/// Delete a finished plan
///
/// Deletes its decisions, errors, messages and rules. Its journal is kept, so that it can still be
/// verified; erase its payloads with `agents plan purge`. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan delete 4k2m9x0q
  agents plan delete 4k2m9x0q --yes")]
pub struct PlanDeleteArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl PlanDeleteArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        let plan = find_plan(&app, &self.plan)?;
        // A plan that is not finished is refused, so there is nothing to ask.
        if !self.yes && plan.state.is_terminal() {
            confirm_deletion(&plan, context)?;
        }
        // The plan that the question named, even if the reference matches another one by now.
        let reply = app.call(PlanDelete {
            plan: plan.plan_id.into(),
        })?;
        CommandAnswer::from_reply(reply, |deleted| {
            let plan = &deleted.plan;
            let rows = [
                (
                    "plan",
                    ViewCell::new(plan.plan_id.to_string(), Tone::Strong),
                ),
                ("name", plan.name.to_string().into()),
                ("state", summary_cell(plan)),
            ];
            OutputView::new().panel("Deleted", rows)
        })
    }
}

/// Asks for confirmation. Unlike other questions, it is not skipped without a terminal: nothing brings
/// a deleted plan back.
fn confirm_deletion(
    plan: &PlanSummary,
    context: &CommandContext<'_>,
) -> Result<(), CommandFailure> {
    let question = format!("Delete {} and everything but its journal?", plan.name);
    let reason = match confirm(&question, context.environment) {
        Confirmation::Yes => return Ok(()),
        Confirmation::No => "not confirmed",
        Confirmation::NoTerminal => "there is no terminal to ask for confirmation",
    };
    let request = PlanDelete {
        plan: plan.plan_id.into(),
    };
    Err(
        CommandFailure::new(ExitCode::Decision, "nothing was deleted")
            .because(reason)
            .hint(NextStep::send(&request).with_flag("yes"))
            .with_plan_id(plan.plan_id),
    )
}
