//! `agents action list`

use clap::Args;
use cleveragents_domain::ActionState;
use serde_json::{Value, json};

use super::show::plans_of;
use super::view::{Origin, Shown, yes_or_no};
use crate::commands::Context;
use crate::failure::Failure;
use crate::local_actions::{self, LocalAction};
use crate::name_pattern::NamePattern;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::wiring::Wired;

/// How many rows people see unless they ask for another number.
const SHOWN: usize = 100;

/// List actions, the newest first, and those of the project around the working directory
///
/// JSON and YAML carry all of them unless --limit is given; people see the newest 100.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action list
  agents action list --state available --namespace local
  agents action list '^local/code'
  agents action list --limit 10 --format json")]
pub struct List {
    /// Only names that match this regular expression, whatever the case of its letters
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

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let (registered, uses) = wired.wait(wired.lifecycle().actions())?;
        let folders = local_actions::around_here(context.environment);
        let survey = local_actions::survey(&folders);
        let twice = local_actions::twice(&survey.actions, None);
        let faults: Vec<&Failure> = survey.faults.iter().chain(&twice).collect();
        let mut warnings: Vec<String> = faults.iter().map(|fault| briefly(fault)).collect();
        let hints: Vec<String> = faults.iter().flat_map(|it| it.hints.clone()).collect();

        let mut all: Vec<Shown> = registered
            .iter()
            .map(|action| {
                let plans = uses.get(&action.id).copied().unwrap_or_default();
                Shown::registered(action, plans)
            })
            .collect();
        for local in survey.actions {
            let name = &local.draft.name;
            match registered.iter().any(|action| action.name == *name) {
                true => warnings.push(local_actions::shadowed(name, &local.file)),
                false => all.push(of_file(local, &wired)?),
            }
        }
        all.retain(|shown| self.wants(shown));
        let warned = |answer: Answer, text| answer.say(Level::Warn, text);
        let answer = warnings.into_iter().fold(self.answer(&all), warned);
        let hinted = |answer: Answer, text| answer.say(Level::Hint, text);
        Ok(hints.into_iter().fold(answer, hinted))
    }

    fn wants(&self, shown: &Shown) -> bool {
        let draft = &shown.draft;
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

    fn answer(&self, all: &[Shown]) -> Answer {
        let listed = &all[..all.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &all[..all.len().min(self.limit.unwrap_or(SHOWN))];
        let archived = |shown: &&Shown| shown.draft.state == ActionState::Archived;
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
        let view = View::new().table("Actions", &headers, seen.iter().map(row));
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let answer = Answer::new(data, view)
            .say(Level::Info, format!("{} listed", counted(number, "action")));
        match all.len() - seen.len() {
            0 if all.is_empty() => answer.say(Level::Hint, "agents action create --config FILE"),
            0 => answer,
            more => answer.say(
                Level::Hint,
                format!("{more} more: repeat it with --limit {}", all.len()),
            ),
        }
    }
}

/// A failure beside an answer: what and the first reason.
fn briefly(failure: &Failure) -> String {
    match failure.causes.first() {
        Some(cause) => format!("{}: {cause}", failure.what),
        None => failure.what.clone(),
    }
}

fn of_file(local: LocalAction, wired: &Wired<'_>) -> Result<Shown, Failure> {
    let plans = plans_of(&local.draft.name, wired)?;
    Ok(Shown::local(local, plans))
}

fn data(shown: &Shown) -> Value {
    let draft = &shown.draft;
    json!({
        "name": draft.name,
        "state": draft.state,
        "strategy_actor": draft.actors.strategy_actor,
        "execution_actor": draft.actors.execution_actor,
        "reusable": draft.reusable,
        "plans": shown.plans,
        "description": draft.description,
        "source": shown.origin.word(),
        "file": shown.origin.file(),
    })
}

fn row(shown: &Shown) -> Vec<Cell> {
    let draft = &shown.draft;
    let state = match draft.state {
        ActionState::Available => Cell::new(draft.state.to_string(), Tone::Good),
        ActionState::Archived => Cell::new(draft.state.to_string(), Tone::Faint),
    };
    let source = match &shown.origin {
        Origin::Registered(_) => Cell::from("registered"),
        Origin::File(_) => Cell::from("project"),
    };
    vec![
        Cell::new(draft.name.to_string(), Tone::Strong),
        state,
        draft.actors.strategy_actor.to_string().into(),
        draft.actors.execution_actor.to_string().into(),
        yes_or_no(draft.reusable).into(),
        shown.plans.to_string().into(),
        source,
    ]
}
