//! `agents plan rebase`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::PlanRebase;
use cleveragents_api::plan::rebase::{RebasedPlan, RebasedPlanResource};
use cleveragents_app::plan::short_commit;
use cleveragents_domain::ResourceType;

use super::progress::{PlanProgress, run_with_progress};
use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::plan_lookup::find_plan;

/// Rebase a plan's result onto the current commits of its targets
///
/// For a plan that is executed and not applied. The result is merged with the current commits in
/// the sandbox; checks and validations run again on the merge. Of a folder without git, the current
/// files are used. If the plan and the target changed the same lines, the plan is queued to run
/// again on the current target (exit code 5). Either all resources are rebased or none. A stopped
/// apply is aborted first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan rebase 4k2m9x0q
  agents plan rebase 4k2m9x0q --format json")]
pub struct PlanRebaseArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,
}

impl PlanRebaseArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        let id = find_plan(&app, &self.plan)?.plan_id;
        let progress = PlanProgress::new(false, context);
        let (handlers, caller) = (app.app(), app.caller());
        let work = handlers.call(PlanRebase { plan: id.into() }, &caller);
        CommandAnswer::from_reply(run_with_progress(&app, &progress, id, work)?, view)
    }
}

fn view(rebased: &RebasedPlan) -> OutputView {
    let plan = &rebased.plan;
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
    ];
    let resources = rebased.resources.iter();
    rows.extend(resources.map(|it| ("resource", resource_text(it).into())));
    if let Some(summary) = &rebased.validations {
        let cell = match (summary.permits_apply(), summary.results.is_empty()) {
            (_, true) => ViewCell::new("none", Tone::Faint),
            (true, _) => ViewCell::new("passed", Tone::Good),
            (false, _) => ViewCell::new("failed", Tone::Bad),
        };
        rows.push(("validations", cell));
    }
    OutputView::new().panel("Rebase", rows)
}

fn resource_text(it: &RebasedPlanResource) -> String {
    let name = &it.resource;
    let (from, to) = (
        short_commit(it.from.as_deref()),
        short_commit(it.to.as_deref()),
    );
    match (it.from == it.to, it.resource_type) {
        (true, ResourceType::FsDirectory) => format!("{name}: a folder, unchanged"),
        (false, ResourceType::FsDirectory) => format!("{name}: the folder as it is now"),
        (true, ResourceType::GitCheckout) => format!("{name}: still at {to}"),
        (false, ResourceType::GitCheckout) => format!("{name}: {from} → {to}"),
    }
}
