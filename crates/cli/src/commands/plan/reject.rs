//! `agents plan reject`

use clap::Args;
use cleveragents_api::plan::PlanReject;
use cleveragents_api::plan::reject::RejectedChange;

use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Remove a file, or one hunk of it, from a plan's result
///
/// The file or hunk is restored to its state before the plan. Checks and validations run again on
/// the rest. The reason is recorded as a decision of the plan, for the next attempt. To undo it,
/// use `agents plan rollback` with the checkpoint that is shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan diff 4k2m9x0q
  agents plan reject 4k2m9x0q docs/notes.md --why 'no notes were asked for'
  agents plan reject 4k2m9x0q src/cart.rs:2 --why 'the name was right' --resource local/shop")]
pub struct PlanRejectArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// The file as `agents plan diff` shows it, and optionally the number of a hunk, counted from
    /// 1; write a `:` in a file name as %3A
    #[arg(value_name = "FILE[:HUNK]")]
    part: String,

    /// The reason
    #[arg(long, value_name = "TEXT")]
    why: String,

    /// The resource, if several have this path
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

impl PlanRejectArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let resource = self.resource.as_deref();
        let resource = resource.map(|text| names::parse_name("resource", text));
        let resource = resource.transpose()?;
        let reply = context.call_for_plan(&self.plan, |plan| PlanReject {
            plan,
            part: self.part.clone(),
            why: self.why.clone(),
            resource,
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(change: &RejectedChange) -> OutputView {
    let (plan, rejected) = (&change.plan, &change.rejected);
    let what = match rejected.hunk {
        Some(hunk) => format!("hunk {hunk} of {}", rejected.path),
        None => rejected.path.to_string(),
    };
    let validation = &change.validation;
    let validation = match (validation.permits_apply(), validation.results.is_empty()) {
        (_, true) => ViewCell::new("none", Tone::Faint),
        (true, _) => ViewCell::new("passed", Tone::Good),
        (false, _) => ViewCell::new("failed", Tone::Bad),
    };
    let rows = [
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("rejected", what.into()),
        ("resource", rejected.resource.to_string().into()),
        ("because", rejected.why.clone().into()),
        ("validations", validation),
        ("state", summary_cell(plan)),
    ];
    OutputView::new().panel("Rejected", rows)
}
