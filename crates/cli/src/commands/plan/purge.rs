//! `agents plan purge`

use clap::Args;
use cleveragents_engine::lifecycle::Erasure;
use serde_json::json;

use super::shown::{confirmed, find_journal};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::PlanArgument;

/// Erase what a plan's journal says, on the record
///
/// The payloads are gone for good; that there were events, when, of which kind and by whom stays,
/// and the chain of hashes still verifies. What the plan itself says stays until it is deleted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan purge 4k2m9x0q --reason 'a customer asked us to'
  agents plan purge 4k2m9x0q --from-seq 12 --to-seq 12 --reason 'a password' --yes")]
pub struct Purge {
    /// The plan; of a deleted plan its whole id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The first event to erase (its plan_seq)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    from_seq: Option<i64>,

    /// The last event to erase
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to_seq: Option<i64>,

    /// Why, for the record
    #[arg(short, long, value_name = "REASON", default_value = "purged by hand")]
    reason: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Purge {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        if let (Some(first), Some(last)) = (self.from_seq, self.to_seq)
            && first > last
        {
            return Err(Failure::usage(format!(
                "--from-seq {first} comes after --to-seq {last}"
            )));
        }
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let id = find_journal(&wired, &self.plan)?;
        let question = format!(
            "Erase what the journal of plan {} says, for good?",
            id.short()
        );
        confirmed(&question, self.yes, context, "nothing was erased")?;
        let erased = wired.wait(wired.lifecycle().purge(Erasure {
            plan: id,
            first: self.from_seq,
            last: self.to_seq,
            reason: wired.hide(&self.reason)?,
            actor: wired.actor().to_owned(),
        }))?;
        let number = i64::try_from(erased.payloads).unwrap_or(i64::MAX);
        let data = json!({
            "plan_id": id,
            "erased": erased.payloads,
            "reason": self.reason,
            "head_hash": erased.head_hash,
        });
        let view = View::new().panel(
            "Journal",
            [
                ("plan", Cell::new(id.short(), Tone::Strong)),
                ("payloads erased", number.to_string().into()),
                ("head hash", erased.head_hash.into()),
            ],
        );
        let said = match number {
            0 => "there was nothing left to erase".to_owned(),
            _ => format!("{} erased", counted(number, "payload")),
        };
        Ok(Answer::new(data, view).say(Level::Info, said))
    }
}
