//! `agents plan unapply`

use clap::Args;
use cleveragents_engine::applying::Unapplied;
use cleveragents_engine::ports::targets::Destination;
use serde_json::{Value, json};

use super::apply::blocked;
use super::shown::{confirmed, find, position, standing};
use super::working::{Told, accompany};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;

/// Take an applied plan's changes back out
///
/// The opposite change is merged with what happened there since, with the same safety as applying:
/// a file that you changed meanwhile blocks it and is named. In a git repository it is a commit of
/// its own. The plan is at `apply/unapplied` then: it counts as finished, and can be applied,
/// reverted or corrected again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan unapply 4k2m9x0q
  agents plan unapply 4k2m9x0q --yes")]
pub struct Unapply {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Unapply {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let plan = find(&wired, &self.plan)?;
        let id = plan.identity.plan_id;
        let question = format!("Take back what plan {} applied?", plan.name);
        confirmed(&question, self.yes, context, "nothing was taken back")?;
        let service = wired.applies()?;
        let ask = wired.apply_ask(id, Destination::Current);
        let told = Told::new(false, context);
        let (plan, apply, said) = match accompany(&wired, &told, id, service.unapply(&ask))?? {
            Unapplied::Done { plan, apply } => (plan, apply, "Changes taken back"),
            Unapplied::Stands { plan, apply } => {
                (plan, apply, "the changes were taken back before")
            }
            Unapplied::Blocked { plan, conflicts } => {
                let what = "nothing was taken back: something is in the way";
                return Err(
                    blocked(&plan, &conflicts, what).hint(format!("agents plan unapply {id}"))
                );
            }
            Unapplied::Stopped {
                plan, conflicts, ..
            } => {
                let what = "somebody changed the target meanwhile; what is theirs was left alone";
                return Err(
                    blocked(&plan, &conflicts, what).hint(format!("agents plan unapply {id}"))
                );
            }
        };
        let mut data = standing(&plan);
        data.insert("apply_id".to_owned(), json!(apply.id));
        let results: Vec<&Option<Value>> = apply.resources.iter().map(|it| &it.result).collect();
        data.insert("resources".to_owned(), json!(results));
        let mut rows = vec![
            ("plan", Cell::new(id.short(), Tone::Strong)),
            ("name", plan.name.to_string().into()),
            ("stands at", position(plan.position)),
        ];
        for result in results.into_iter().flatten() {
            if let Some(commit) = result.get("commit").and_then(Value::as_str) {
                rows.push(("commit", commit.to_owned().into()));
            }
        }
        let view = View::new().panel("Unapplied", rows);
        Ok(Answer::new(Value::Object(data), view)
            .say(Level::Info, said)
            .say(Level::Hint, format!("agents plan apply {id}")))
    }
}
