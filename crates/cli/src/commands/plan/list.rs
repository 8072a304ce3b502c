//! `agents plan list`

use std::collections::BTreeMap;

use clap::Args;
use cleveragents_domain::{NamespacedName, Phase, Plan, State, Timestamp};
use cleveragents_engine::StoreError;
use cleveragents_engine::ports::{PlanCursor, PlanFilter};
use serde_json::{Value, json};

use super::shown::{elapsed, projects, span, standing, state};
use crate::commands::Context;
use crate::commands::action::{is_missing, unknown};
use crate::failure::Failure;
use crate::name_pattern::NamePattern;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::{PEOPLE_SEE, word};
use crate::wiring::Wired;

/// How many plans are looked through at once for a pattern.
const PAGE: u32 = 500;

/// List plans, the newest first
///
/// People see the newest 100 unless --limit says otherwise; JSON and YAML have all.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan list
  agents plan list --state errored --project local/shop
  agents plan list --phase execute --limit 10
  agents plan list 'lint|format' --format json")]
pub struct List {
    /// Only plans in this phase: strategize, execute or apply
    #[arg(long, value_name = "PHASE", value_parser = word::<Phase>)]
    phase: Option<Phase>,

    /// Only plans in this state: queued, processing, complete, errored, cancelled, constrained or
    /// applied
    #[arg(long, value_name = "STATE", value_parser = word::<State>)]
    state: Option<State>,

    /// Only plans on this project
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    /// Only plans of this action
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// At most this many
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Only plans whose name, description or project matches this regular expression
    #[arg(value_name = "REGEX")]
    regex: Option<String>,
}

/// What is listed, and how many there are in all.
#[derive(Default)]
struct Found {
    plans: Vec<Plan>,
    total: u64,
    by_state: BTreeMap<State, u64>,
}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let limit = match (self.limit, context.format.is_envelope()) {
            (None, false) => Some(PEOPLE_SEE),
            (limit, _) => limit,
        };
        let pattern = self.regex.as_deref().map(names::pattern).transpose()?;
        let filter = self.filter()?;
        let found = match &pattern {
            None => page(
                &wired,
                PlanFilter {
                    limit,
                    ..filter.clone()
                },
            )?,
            Some(pattern) => matching(&wired, &filter, pattern, limit)?,
        };
        if found.total == 0 {
            known(&wired, filter.project.as_ref(), filter.action.as_ref())?;
        }
        Ok(self.answer(&found, wired.now()))
    }

    fn filter(&self) -> Result<PlanFilter, Failure> {
        let name = |what, text: &Option<String>| {
            let name = text.as_deref().map(|text| names::name(what, text));
            name.transpose()
        };
        Ok(PlanFilter {
            phase: self.phase,
            state: self.state,
            project: name("project", &self.project)?,
            action: name("action", &self.action)?,
            ..PlanFilter::default()
        })
    }

    fn answer(&self, found: &Found, now: Timestamp) -> Answer {
        let count = |states: &[State]| -> u64 {
            let counts = states.iter().map(|state| found.by_state.get(state));
            counts.flatten().sum()
        };
        let data = json!({
            "plans": found.plans.iter().map(|plan| row_data(plan, now)).collect::<Vec<_>>(),
            "filters": {
                "phase": self.phase,
                "state": self.state,
                "project": self.project,
                "action": self.action,
                "pattern": self.regex,
            },
            "summary": {
                "total": found.total,
                "processing": count(&[State::Processing]),
                "completed": count(&[State::Complete, State::Applied]),
                "errored": count(&[State::Errored]),
                "cancelled": count(&[State::Cancelled]),
                "queued": count(&[State::Queued]),
                "constrained": count(&[State::Constrained]),
                "unapplied": count(&[State::Unapplied]),
            },
        });
        let headers = ["plan", "phase", "state", "action", "project", "elapsed"];
        let rows = found.plans.iter().map(|plan| row(plan, now));
        let listed = found.plans.len();
        let view = match listed {
            0 => View::new(),
            _ => View::new().table("Plans", &headers, rows),
        };
        let said = format!(
            "{} listed",
            counted(i64::try_from(listed).unwrap_or(i64::MAX), "plan")
        );
        let answer = Answer::new(data, view).say(Level::Info, said);
        match found.total.saturating_sub(listed as u64) {
            0 => answer,
            more => answer.say(
                Level::Info,
                format!("{more} more match; see them with --limit"),
            ),
        }
    }
}

/// Refuses names of a project or an action that there is not. Plans outlive both, so this is asked
/// only when no plan was found.
fn known(
    wired: &Wired<'_>,
    project: Option<&NamespacedName>,
    action: Option<&NamespacedName>,
) -> Result<(), Failure> {
    if let Some(project) = project.cloned() {
        let look = wired.store().read(move |unit| unit.project(&project));
        let found: Result<_, StoreError> = wired.wait(look);
        found.map_err(|error| Failure::from(error).hint("agents project list"))?;
    }
    if let Some(action) = action {
        let found = wired.wait(wired.lifecycle().action(action.clone()));
        if is_missing(&found) {
            return Err(unknown(action, &[], wired));
        }
    }
    Ok(())
}

fn page(wired: &Wired<'_>, filter: PlanFilter) -> Result<Found, Failure> {
    let page = wired.wait(wired.lifecycle().list_plans(filter))?;
    Ok(Found {
        plans: page.plans,
        total: page.total,
        by_state: page.by_state,
    })
}

/// Looks through all plans, page by page; what matches is counted, the newest are kept.
fn matching(
    wired: &Wired<'_>,
    filter: &PlanFilter,
    pattern: &NamePattern,
    limit: Option<u32>,
) -> Result<Found, Failure> {
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut found = Found::default();
    let mut before = None;
    loop {
        let next = PlanFilter {
            limit: Some(PAGE),
            before,
            ..filter.clone()
        };
        let plans = page(wired, next)?.plans;
        let Some(last) = plans.last() else {
            return Ok(found);
        };
        let next = Some(PlanCursor::from(last));
        if next == before {
            return Ok(found);
        }
        before = next;
        for plan in plans {
            let texts = [
                plan.name.to_string(),
                plan.brief.description.clone(),
                projects(&plan),
            ];
            if !texts.iter().any(|text| pattern.matches(text)) {
                continue;
            }
            found.total += 1;
            *found.by_state.entry(plan.position.state()).or_default() += 1;
            if found.plans.len() < most {
                found.plans.push(plan);
            }
        }
    }
}

fn row(plan: &Plan, now: Timestamp) -> Vec<Cell> {
    vec![
        Cell::new(plan.identity.plan_id.short(), Tone::Strong),
        plan.position.phase().as_str().into(),
        state(plan.position.state()),
        plan.brief.action_name.to_string().into(),
        projects(plan).into(),
        Cell::new(span(elapsed(plan, now)), Tone::Faint),
    ]
}

fn row_data(plan: &Plan, now: Timestamp) -> Value {
    let mut row = standing(plan);
    row.insert("id".to_owned(), json!(plan.identity.plan_id));
    row.insert("elapsed".to_owned(), json!(span(elapsed(plan, now))));
    row.insert("created_at".to_owned(), json!(plan.timestamps.created_at));
    Value::Object(row)
}
