//! `agents plan purge`

use clap::Args;
use cleveragents_engine::lifecycle::PlanPurgeRequest;
use serde_json::json;

use super::view::{confirm_or_fail, find_journal};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

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
    /// The plan; of a deleted plan its whole id
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
        if let (Some(first), Some(last)) = (self.from_seq, self.to_seq)
            && first > last
        {
            return Err(CommandFailure::usage(format!(
                "--from-seq {first} comes after --to-seq {last}"
            )));
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let id = find_journal(&app, &self.plan)?;
        let question = format!(
            "Permanently erase payloads in the journal of plan {}?",
            id.short()
        );
        confirm_or_fail(&question, self.yes, context, "nothing was erased")?;
        let erased = app.block_on(app.lifecycle().purge(PlanPurgeRequest {
            plan: id,
            first: self.from_seq,
            last: self.to_seq,
            reason: app.mask_secrets(&self.reason)?,
            actor: app.actor().to_owned(),
        }))?;
        let number = i64::try_from(erased.payloads).unwrap_or(i64::MAX);
        let data = json!({
            "plan_id": id,
            "erased": erased.payloads,
            "reason": self.reason,
            "head_hash": erased.head_hash,
        });
        let view = OutputView::new().panel(
            "Journal",
            [
                ("plan", ViewCell::new(id.short(), Tone::Strong)),
                ("payloads erased", number.to_string().into()),
                ("head hash", erased.head_hash.into()),
            ],
        );
        let said = match number {
            0 => "nothing to erase".to_owned(),
            _ => format!("{} erased", format_count(number, "payload")),
        };
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, said))
    }
}
