//! `agents sandbox list`

use clap::Args;
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_engine::sandboxes::{Known, Overview, Wanted};
use serde_json::{Value, json};

use super::view;
use crate::commands::{Context, find_plan};
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::{PlanArgument, word};
use crate::wiring::Wired;

/// List sandboxes, the newest first
///
/// What is on record, with whether the folder is there. Folders that no record tells of are named
/// as well.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox list
  agents sandbox list --state captured
  agents sandbox list --plan 4k2m9x0q --format json")]
pub struct List {
    /// Only sandboxes in this state: creating, active, captured, applied or discarded
    #[arg(long, value_name = "STATE", value_parser = word::<SandboxState>)]
    state: Option<SandboxState>,

    /// Only sandboxes of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,
}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let plan = self.plan.as_ref().map(|plan| find_plan(&wired, plan));
        let plan = plan.transpose()?.map(|plan| plan.identity.plan_id);
        let wanted = Wanted {
            states: self.state.into_iter().collect(),
            plan,
        };
        let service = wired.sandboxes()?;
        let found = wired.wait(service.list(wanted))?;
        Ok(self.answer(&found, &wired))
    }

    fn answer(&self, found: &Overview, wired: &Wired<'_>) -> Answer {
        let known = &found.known;
        let count = |state| known.iter().filter(|it| it.record.state == state).count();
        let by_state: serde_json::Map<String, Value> = SandboxState::ALL
            .iter()
            .map(|state| (state.as_str().to_owned(), json!(count(*state))))
            .collect();
        let data = json!({
            "sandboxes": known.iter().map(|it| view::data(it, wired)).collect::<Vec<Value>>(),
            "unknown": found.unknown,
            "filters": {
                "state": self.state,
                "plan": self.plan.as_ref().map(|plan| plan.0.as_str()),
            },
            "summary": { "total": known.len(), "by_state": by_state },
        });
        let headers = ["sandbox", "plan", "resource", "state", "folder", "made"];
        let view = match known.is_empty() {
            true => View::new(),
            false => View::new().table("Sandboxes", &headers, known.iter().map(row)),
        };
        let number = i64::try_from(known.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", counted(number, "sandbox").replace("xs", "xes"));
        let answer = Answer::new(data, view).say(Level::Info, said);
        match found.unknown.len() {
            0 => answer,
            number => answer
                .say(
                    Level::Warn,
                    format!("{number} more on disk that no record tells of"),
                )
                .say(Level::Hint, "agents sandbox gc --dry-run"),
        }
    }
}

fn row(known: &Known) -> Vec<Cell> {
    let record = &known.record;
    vec![
        Cell::new(record.id.short(), Tone::Strong),
        record.plan_id.short().into(),
        record.resource_name.to_string().into(),
        view::state(record.state),
        view::folder(known),
        Cell::new(record.created_at.to_string(), Tone::Faint),
    ]
}
