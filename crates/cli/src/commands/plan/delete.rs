//! `agents plan delete`

use clap::Args;
use serde_json::{Value, json};

use super::shown::{confirmed, find, position, standing};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;

/// Delete a finished plan
///
/// Its decisions, errors, messages and rules go with it. Its journal stays, so that it can still
/// be verified; erase what it says with `agents plan purge`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan delete 4k2m9x0q
  agents plan delete 4k2m9x0q --yes")]
pub struct Delete {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let plan = find(&wired, &self.plan)?;
        let question = format!("Delete {} and everything but its journal?", plan.name);
        confirmed(&question, self.yes, context, "nothing was deleted")?;
        let id = plan.identity.plan_id;
        let deleted = wired.wait(wired.lifecycle().delete(id, wired.actor()))?;
        let mut data = standing(&deleted);
        data.insert("deleted".to_owned(), json!(true));
        let view = View::new().panel(
            "Deleted",
            [
                ("plan", Cell::new(id.to_string(), Tone::Strong)),
                ("name", deleted.name.to_string().into()),
                ("stood at", position(deleted.position)),
            ],
        );
        Ok(Answer::new(Value::Object(data), view)
            .say(Level::Info, "Plan deleted; its journal stays")
            .say(Level::Hint, format!("agents plan verify {id}"))
            .say(Level::Hint, format!("agents plan purge {id}")))
    }
}
