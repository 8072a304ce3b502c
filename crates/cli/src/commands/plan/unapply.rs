//! `agents plan unapply`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::PlanUnapply;
use cleveragents_api::plan::unapply::UnappliedPlan;
use cleveragents_domain::PlanState;

use super::progress::{PlanProgress, find_before_question, run_with_progress};
use super::view::{confirm_before_work, summary_cell};
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::confirmation::is_interactive;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Undo the changes of an applied plan
///
/// The reverse change is merged with the current state of the target, as safely as an apply: a file
/// that you changed since blocks it and is named. In a git repository it is a separate commit. The
/// plan is then at `apply/unapplied`: it counts as finished, and can be applied, reverted or
/// corrected again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan unapply 4k2m9x0q
  agents plan unapply 4k2m9x0q --yes")]
pub struct PlanUnapplyArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl PlanUnapplyArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        let progress = PlanProgress::new(false, context);
        let is_asking = !self.yes && is_interactive(context.environment);
        let plan = find_before_question(&app, &progress, &self.plan, is_asking)?;
        let id = plan.plan_id;
        if is_asking && plan.state != PlanState::Unapplied {
            let question = format!("Undo the changes that plan {} applied?", plan.name);
            // Not that nothing was undone: an earlier unapply may have stopped half way.
            let refused = "the plan was not unapplied";
            progress.suspend(|| confirm_before_work(&question, &app, context, refused))?;
        }
        let (handlers, caller) = (app.app(), app.caller());
        let work = handlers.call(PlanUnapply { plan: id.into() }, &caller);
        CommandAnswer::from_reply(run_with_progress(&app, &progress, id, work)?, view)
    }
}

fn view(unapplied: &UnappliedPlan) -> OutputView {
    let plan = &unapplied.plan;
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
    ];
    for result in unapplied.resources.iter().flatten() {
        if let Some(commit) = &result.commit {
            rows.push(("commit", commit.clone().into()));
        }
    }
    OutputView::new().panel("Unapplied", rows)
}
