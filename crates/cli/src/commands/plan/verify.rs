//! `agents plan verify`

use clap::Args;
use cleveragents_api::plan::PlanVerify;

use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Verify that a plan's journal was not altered
///
/// Each event is chained to the previous one by its hash. Keep the head hash that this prints and
/// pass it as --expect later, to prove that no events were cut off at the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan verify 4k2m9x0q
  agents plan verify 4k2m9x0q --expect 9f2c4d…")]
pub struct PlanVerifyArgs {
    /// The plan; for a deleted plan its whole id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The expected head hash of the journal
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
}

impl PlanVerifyArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanVerify {
            plan,
            expect: self.expect.clone(),
        })?;
        CommandAnswer::from_reply(reply, |journal| {
            let rows = [
                ("plan", ViewCell::new(journal.plan_id.short(), Tone::Strong)),
                ("events", journal.events.to_string().into()),
                ("payloads erased", journal.purged.to_string().into()),
                ("head hash", journal.head_hash.clone().into()),
            ];
            OutputView::new().panel("Journal", rows)
        })
    }
}
