//! `agents plan verify`

use clap::Args;
use cleveragents_domain::StreamId;
use cleveragents_engine::journal::verify;
use cleveragents_ports::journal_verification::ChainFault;
use serde_json::json;

use super::view::find_journal;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

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
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let id = find_journal(&app, &self.plan)?;
        let expect = self.expect.as_ref().map(|hash| hash.to_ascii_lowercase());
        let verified = app.block_on(verify(app.store(), StreamId::Plan(id), expect))?;
        let found = verified.map_err(|fault| altered_failure(&fault))?;
        let data = json!({
            "plan_id": id,
            "verified": true,
            "events": found.events,
            "purged": found.purged,
            "head_hash": found.head_hash,
        });
        let view = OutputView::new().panel(
            "Journal",
            [
                ("plan", ViewCell::new(id.short(), Tone::Strong)),
                ("events", found.events.to_string().into()),
                ("payloads erased", found.purged.to_string().into()),
                ("head hash", found.head_hash.into()),
            ],
        );
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, "Journal verified"))
    }
}

fn altered_failure(fault: &ChainFault) -> CommandFailure {
    CommandFailure::new(ExitCode::Error, "the journal does not verify")
        .kind("altered")
        .because(fault.to_string())
        .hint("agents diagnostics")
        .hint("compare with a backup: agents restore FILE --data-dir DIR")
        .with("verified", false.into())
        .with("fault", json!(fault))
}
