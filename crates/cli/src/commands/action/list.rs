//! `agents action list`

use clap::Args;
use cleveragents_api::action::{ActionList, ActionSource, ActionSummary};
use cleveragents_app::NamePattern;
use cleveragents_domain::ActionState;

use super::view::yes_or_no;
use crate::argument_types::parse_limit;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List actions, newest first, and those of the current project
///
/// JSON and YAML contain all of them unless --limit is given; tables show the newest 100.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action list
  agents action list --state available --namespace local
  agents action list '^local/code'
  agents action list --limit 10 --format json")]
pub struct ActionListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<NamePattern>,

    /// Only actions in this state: available or archived
    #[arg(long, value_name = "STATE")]
    state: Option<ActionState>,

    /// Only actions of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

const HEADERS: [&str; 7] = [
    "name",
    "state",
    "strategy",
    "execution",
    "reusable",
    "plans",
    "source",
];

impl ActionListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ActionList {
            pattern: self.pattern.as_ref().map(|it| it.as_str().to_owned()),
            state: self.state,
            namespace: self.namespace.clone(),
            limit: self.limit,
            folder: context.environment.working_directory.clone(),
        })?;
        let total = reply.answer.summary.total;
        let listed = self.limit.unwrap_or(DEFAULT_ROWS);
        let answer = CommandAnswer::from_reply(reply, |page| {
            let rows = page.actions.iter().take(listed).map(row);
            OutputView::new().table("Actions", &HEADERS, rows)
        })?;
        Ok(match total.saturating_sub(listed) {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {total}"),
            ),
        })
    }
}

fn row(action: &ActionSummary) -> Vec<ViewCell> {
    let state = match action.state {
        ActionState::Available => ViewCell::new(action.state.to_string(), Tone::Good),
        ActionState::Archived => ViewCell::new(action.state.to_string(), Tone::Faint),
    };
    let source = match action.source {
        ActionSource::Registered => ViewCell::from("registered"),
        ActionSource::File => ViewCell::from("project"),
    };
    vec![
        ViewCell::new(action.name.to_string(), Tone::Strong),
        state,
        action.strategy_actor.to_string().into(),
        action.execution_actor.to_string().into(),
        yes_or_no(action.reusable).into(),
        action.plans.to_string().into(),
        source,
    ]
}
