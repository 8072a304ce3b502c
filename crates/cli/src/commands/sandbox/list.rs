//! `agents sandbox list`

use clap::Args;
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_engine::sandboxes::{SandboxFilter, SandboxListEntry, SandboxOverview};
use serde_json::{Value, json};

use super::view;
use crate::argument_types::{PlanArgument, parse_value};
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, find_plan};
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// List sandboxes, newest first
///
/// Shows each sandbox on record and whether its folder exists, and folders without a record.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox list
  agents sandbox list --state captured
  agents sandbox list --plan 4k2m9x0q --format json")]
pub struct SandboxListArgs {
    /// Only sandboxes in this state: creating, active, captured, applied or discarded
    #[arg(long, value_name = "STATE", value_parser = parse_value::<SandboxState>)]
    state: Option<SandboxState>,

    /// Only sandboxes of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,
}

impl SandboxListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = self.plan.as_ref().map(|plan| find_plan(&app, plan));
        let plan = plan.transpose()?.map(|plan| plan.identity.plan_id);
        let wanted = SandboxFilter {
            states: self.state.into_iter().collect(),
            plan,
        };
        let service = app.sandboxes()?;
        let found = app.block_on(service.list(wanted))?;
        Ok(self.answer(&found, &app))
    }

    fn answer(&self, found: &SandboxOverview, app: &AppContext<'_>) -> CommandAnswer {
        let known = &found.known;
        let count = |state| known.iter().filter(|it| it.record.state == state).count();
        let by_state: serde_json::Map<String, Value> = SandboxState::ALL
            .iter()
            .map(|state| (state.as_str().to_owned(), json!(count(*state))))
            .collect();
        let data = json!({
            "sandboxes": known.iter().map(|it| view::data(it, app)).collect::<Vec<Value>>(),
            "unknown": found.unknown,
            "filters": {
                "state": self.state,
                "plan": self.plan.as_ref().map(|plan| plan.0.as_str()),
            },
            "summary": { "total": known.len(), "by_state": by_state },
        });
        let headers = ["sandbox", "plan", "resource", "state", "folder", "made"];
        let view = if known.is_empty() {
            OutputView::new()
        } else {
            OutputView::new().table("Sandboxes", &headers, known.iter().map(row))
        };
        let number = i64::try_from(known.len()).unwrap_or(i64::MAX);
        let said = format!(
            "{} listed",
            format_count(number, "sandbox").replace("xs", "xes")
        );
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        match found.unknown.len() {
            0 => answer,
            number => answer
                .with_message(
                    MessageLevel::Warn,
                    format!("{number} more on disk without a record"),
                )
                .with_message(MessageLevel::Hint, "agents sandbox gc --dry-run"),
        }
    }
}

fn row(sandbox: &SandboxListEntry) -> Vec<ViewCell> {
    let record = &sandbox.record;
    vec![
        ViewCell::new(record.id.short(), Tone::Strong),
        record.plan_id.short().into(),
        record.resource_name.to_string().into(),
        view::state(record.state),
        view::folder(sandbox),
        ViewCell::new(record.created_at.to_string(), Tone::Faint),
    ]
}
