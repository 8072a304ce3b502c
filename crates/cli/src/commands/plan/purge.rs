//! `agents plan purge`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::{PlanLog, PlanPurge};

use super::view::confirm_or_fail;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::plan_lookup::plan_reference;
use crate::unfinished_applies::log_unfinished_applies;

/// Erase payloads from a plan's journal, on the record
///
/// The payloads are erased permanently. Number, time, kind and actor of the events are kept, and
/// the hash chain still verifies. The plan's own data is kept until the plan is deleted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan purge 4k2m9x0q --reason 'a customer asked us to'
  agents plan purge 4k2m9x0q --from-seq 12 --to-seq 12 --reason 'a password' --yes")]
pub struct PlanPurgeArgs {
    /// The plan, such as @last; of a deleted plan its whole id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The first event to erase (its plan_seq)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    from_seq: Option<i64>,

    /// The last event to erase
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to_seq: Option<i64>,

    /// The reason, for the record
    #[arg(short, long, value_name = "REASON", default_value = "purged by hand")]
    reason: String,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl PlanPurgeArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        // A deleted plan has a journal, but is not found as a plan.
        // The messages of this reply are not displayed.
        log_unfinished_applies(&app)?;
        let journal = app.call(PlanLog {
            plan: plan_reference(&app, &self.plan)?,
            from_seq: None,
            limit: Some(1),
        })?;
        let id = journal.answer.plan_id;
        let question = format!(
            "Permanently erase payloads in the journal of plan {}?",
            id.short()
        );
        confirm_or_fail(&question, self.yes, context, "nothing was erased")?;
        let reply = app.call(PlanPurge {
            plan: id.into(),
            from_seq: self.from_seq,
            to_seq: self.to_seq,
            reason: self.reason.clone(),
        })?;
        CommandAnswer::from_reply(reply, |purged| {
            let rows = [
                ("plan", ViewCell::new(purged.plan_id.short(), Tone::Strong)),
                ("payloads erased", purged.erased.to_string().into()),
                ("head hash", purged.head_hash.clone().into()),
            ];
            OutputView::new().panel("Journal", rows)
        })
    }
}
