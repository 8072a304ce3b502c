//! `agents plan list`

use std::collections::BTreeMap;

use clap::Args;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState, Timestamp};
use cleveragents_ports::StoreError;
use cleveragents_ports::{PlanCursor, PlanFilter};
use serde_json::{Value, json};

use super::view::{elapsed, format_duration, plan_data, projects, state_cell};
use crate::argument_types::{DEFAULT_ROWS, parse_value};
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use cleveragents_app::NamePattern;
use cleveragents_app::project_actions::UnknownAction;
use cleveragents_engine::lifecycle::LifecycleError;

/// How many plans are read at once when matching a pattern.
const PAGE: u32 = 500;

/// List plans, newest first
///
/// Tables show the newest 100 unless --limit is given; JSON and YAML contain all.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan list
  agents plan list --state errored --project local/shop
  agents plan list --phase execute --limit 10
  agents plan list 'lint|format' --format json")]
pub struct PlanListArgs {
    /// Only plans in this phase: strategize, execute or apply
    #[arg(long, value_name = "PHASE", value_parser = parse_value::<Phase>)]
    phase: Option<Phase>,

    /// Only plans in this state: queued, processing, complete, errored, cancelled, constrained or
    /// applied
    #[arg(long, value_name = "STATE", value_parser = parse_value::<PlanState>)]
    state: Option<PlanState>,

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

/// The listed plans and the total number.
#[derive(Default)]
struct PlanListPage {
    plans: Vec<Plan>,
    total: u64,
    by_state: BTreeMap<PlanState, u64>,
}

impl PlanListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let limit = match (self.limit, context.format.is_envelope()) {
            (None, false) => Some(DEFAULT_ROWS),
            (limit, _) => limit,
        };
        let pattern = self.regex.as_deref().map(NamePattern::parse).transpose()?;
        let filter = self.filter()?;
        let found = match &pattern {
            None => page(
                &app,
                PlanFilter {
                    limit,
                    ..filter.clone()
                },
            )?,
            Some(pattern) => find_matching(&app, &filter, pattern, limit)?,
        };
        if found.total == 0 {
            check_names_exist(&app, filter.project.as_ref(), filter.action.as_ref())?;
        }
        Ok(self.answer(&found, app.now()))
    }

    fn filter(&self) -> Result<PlanFilter, CommandFailure> {
        let name = |what, text: &Option<String>| {
            let name = text.as_deref().map(|text| names::parse_name(what, text));
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

    fn answer(&self, found: &PlanListPage, now: Timestamp) -> CommandAnswer {
        let count = |states: &[PlanState]| -> u64 {
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
                "processing": count(&[PlanState::Processing]),
                "completed": count(&[PlanState::Complete, PlanState::Applied]),
                "errored": count(&[PlanState::Errored]),
                "cancelled": count(&[PlanState::Cancelled]),
                "queued": count(&[PlanState::Queued]),
                "constrained": count(&[PlanState::Constrained]),
                "unapplied": count(&[PlanState::Unapplied]),
            },
        });
        let headers = ["plan", "phase", "state", "action", "project", "elapsed"];
        let rows = found.plans.iter().map(|plan| row(plan, now));
        let listed = found.plans.len();
        let view = match listed {
            0 => OutputView::new(),
            _ => OutputView::new().table("Plans", &headers, rows),
        };
        let said = format!(
            "{} listed",
            format_count(i64::try_from(listed).unwrap_or(i64::MAX), "plan")
        );
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        match found.total.saturating_sub(listed as u64) {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Info,
                format!("{more} more match; see them with --limit"),
            ),
        }
    }
}

/// Fails if a project or action does not exist. Called only if no plan was found, because plans
/// outlive both.
fn check_names_exist(
    app: &AppContext<'_>,
    project: Option<&NamespacedName>,
    action: Option<&NamespacedName>,
) -> Result<(), CommandFailure> {
    if let Some(project) = project.cloned() {
        let look = app.store().read(move |tx| tx.project(&project));
        let found: Result<_, StoreError> = app.block_on(look);
        found.map_err(|error| CommandFailure::from(error).hint("agents project list"))?;
    }
    if let Some(action) = action {
        let found = app.block_on(app.lifecycle().action(action.clone()));
        if let Err(LifecycleError::Store(StoreError::NotFound { .. })) = found {
            let unknown = UnknownAction {
                name: action.clone(),
                in_files: Vec::new(),
            };
            return Err(app.block_on(app.app().unknown_action_failure(&unknown)));
        }
    }
    Ok(())
}

fn page(app: &AppContext<'_>, filter: PlanFilter) -> Result<PlanListPage, CommandFailure> {
    let page = app.block_on(app.lifecycle().list_plans(filter))?;
    Ok(PlanListPage {
        plans: page.plans,
        total: page.total,
        by_state: page.by_state,
    })
}

/// Scans all plans page by page; counts the matches and keeps the newest.
fn find_matching(
    app: &AppContext<'_>,
    filter: &PlanFilter,
    pattern: &NamePattern,
    limit: Option<u32>,
) -> Result<PlanListPage, CommandFailure> {
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut found = PlanListPage::default();
    let mut before = None;
    loop {
        let next = PlanFilter {
            limit: Some(PAGE),
            before,
            ..filter.clone()
        };
        let plans = page(app, next)?.plans;
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

fn row(plan: &Plan, now: Timestamp) -> Vec<ViewCell> {
    vec![
        ViewCell::new(plan.identity.plan_id.short(), Tone::Strong),
        plan.position.phase().as_str().into(),
        state_cell(plan.position.state()),
        plan.brief.action_name.to_string().into(),
        projects(plan).into(),
        ViewCell::new(format_duration(elapsed(plan, now)), Tone::Faint),
    ]
}

fn row_data(plan: &Plan, now: Timestamp) -> Value {
    let mut row = plan_data(plan);
    row.insert("id".to_owned(), json!(plan.identity.plan_id));
    row.insert(
        "elapsed".to_owned(),
        json!(format_duration(elapsed(plan, now))),
    );
    row.insert("created_at".to_owned(), json!(plan.timestamps.created_at));
    Value::Object(row)
}
