//! `agents action list`

use clap::Args;
use cleveragents_domain::ActionState;
use serde_json::{Value, json};

use super::show::count_plans;
use super::view::{ActionOrigin, ActionView, yes_or_no};
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::local_actions::{self, LocalAction};
use crate::name_pattern::NamePattern;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

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
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl ActionListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let (registered, uses) = app.block_on(app.lifecycle().actions())?;
        let folders = local_actions::default_folders(context.environment);
        let survey = local_actions::scan(&folders);
        let twice = local_actions::find_duplicates(&survey.actions, None);
        let faults: Vec<&CommandFailure> = survey.failures.iter().chain(&twice).collect();
        let mut warnings: Vec<String> = faults
            .iter()
            .map(|fault| summarize_failure(fault))
            .collect();
        let hints: Vec<String> = faults.iter().flat_map(|it| it.hints.clone()).collect();

        let mut all: Vec<ActionView> = registered
            .iter()
            .map(|action| {
                let plans = uses.get(&action.id).copied().unwrap_or_default();
                ActionView::from_registered(action, plans)
            })
            .collect();
        for local in survey.actions {
            let name = &local.draft.name;
            if registered.iter().any(|action| action.name == *name) {
                warnings.push(local_actions::shadowed_warning(name, &local.file));
            } else {
                all.push(local_action_view(local, &app)?);
            }
        }
        all.retain(|shown| self.matches(shown));
        let warned = |answer: CommandAnswer, text| answer.with_message(MessageLevel::Warn, text);
        let answer = warnings.into_iter().fold(self.answer(&all), warned);
        let hinted = |answer: CommandAnswer, text| answer.with_message(MessageLevel::Hint, text);
        Ok(hints.into_iter().fold(answer, hinted))
    }

    fn matches(&self, action: &ActionView) -> bool {
        let draft = &action.draft;
        self.state.is_none_or(|state| state == draft.state)
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| namespace == draft.name.namespace())
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(&draft.name))
    }

    fn answer(&self, all: &[ActionView]) -> CommandAnswer {
        let listed = &all[..all.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &all[..all.len().min(self.limit.unwrap_or(DEFAULT_ROWS))];
        let archived = |shown: &&ActionView| shown.draft.state == ActionState::Archived;
        let archived = all.iter().filter(archived).count();
        let data = json!({
            "actions": listed.iter().map(data).collect::<Vec<Value>>(),
            "filters": {
                "state": self.state,
                "namespace": self.namespace,
                "pattern": self.pattern.as_ref().map(NamePattern::as_str),
            },
            "summary": {
                "total": all.len(),
                "available": all.len() - archived,
                "archived": archived,
                "total_plans_created": all.iter().map(|shown| shown.plans).sum::<u64>(),
            },
        });
        let headers = [
            "name",
            "state",
            "strategy",
            "execution",
            "reusable",
            "plans",
            "source",
        ];
        let view = OutputView::new().table("Actions", &headers, seen.iter().map(row));
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let answer = CommandAnswer::new(data, view).with_message(
            MessageLevel::Info,
            format!("{} listed", format_count(number, "action")),
        );
        match all.len() - seen.len() {
            0 if all.is_empty() => {
                answer.with_message(MessageLevel::Hint, "agents action create --config FILE")
            }
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {}", all.len()),
            ),
        }
    }
}

/// Returns the message and the first cause.
fn summarize_failure(failure: &CommandFailure) -> String {
    match failure.causes.first() {
        Some(cause) => format!("{}: {cause}", failure.message),
        None => failure.message.clone(),
    }
}

fn local_action_view(
    local: LocalAction,
    app: &AppContext<'_>,
) -> Result<ActionView, CommandFailure> {
    let plans = count_plans(&local.draft.name, app)?;
    Ok(ActionView::from_local(local, plans))
}

fn data(action: &ActionView) -> Value {
    let draft = &action.draft;
    json!({
        "name": draft.name,
        "state": draft.state,
        "strategy_actor": draft.actors.strategy_actor,
        "execution_actor": draft.actors.execution_actor,
        "reusable": draft.reusable,
        "plans": action.plans,
        "description": draft.description,
        "source": action.origin.name(),
        "file": action.origin.file(),
    })
}

fn row(action: &ActionView) -> Vec<ViewCell> {
    let draft = &action.draft;
    let state = match draft.state {
        ActionState::Available => ViewCell::new(draft.state.to_string(), Tone::Good),
        ActionState::Archived => ViewCell::new(draft.state.to_string(), Tone::Faint),
    };
    let source = match &action.origin {
        ActionOrigin::Registered(_) => ViewCell::from("registered"),
        ActionOrigin::File(_) => ViewCell::from("project"),
    };
    vec![
        ViewCell::new(draft.name.to_string(), Tone::Strong),
        state,
        draft.actors.strategy_actor.to_string().into(),
        draft.actors.execution_actor.to_string().into(),
        yes_or_no(draft.reusable).into(),
        action.plans.to_string().into(),
        source,
    ]
}
