//! `plan.list`

use std::collections::BTreeMap;

use cleveragents_api::plan::list::{ListedPlan, PlanCounts, PlanFilters, PlanPage};
use cleveragents_api::plan::summary::project_names;
use cleveragents_api::plan::{PlanList, PlanSummary};
use cleveragents_api::project::ProjectList;
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::{Plan, PlanState, Timestamp};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::{PlanCursor, PlanFilter, StoreError};

use super::elapsed;
use super::find::projects_around;
use crate::action::unknown_action_failure;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;
use crate::project_actions::UnknownAction;
use crate::services::Services;
use crate::text::{format_duration, format_length};

/// Number of plans that one read returns when matching a pattern.
const PAGE: u32 = 500;

/// The listed plans, and counts over all that match.
#[derive(Default)]
struct FoundPlans {
    plans: Vec<Plan>,
    total: u64,
    by_state: BTreeMap<PlanState, u64>,
}

impl Handler<PlanList> for App {
    async fn handle(&self, request: PlanList, _: &Caller) -> Result<Reply<PlanPage>, RequestError> {
        let pattern = request
            .regex
            .as_deref()
            .map(NamePattern::parse)
            .transpose()?;
        let folder_projects = match &request.folder {
            Some(folder) => projects_around(&self.services, folder).await?,
            None => Vec::new(),
        };
        let filter = PlanFilter {
            phase: request.phase,
            state: request.state,
            projects: match &request.project {
                Some(project) => vec![project.clone()],
                None => folder_projects.clone(),
            },
            action: request.action.clone(),
            ..PlanFilter::default()
        };
        let found = match &pattern {
            None => {
                let limit = request.limit;
                plans_page(&self.services, PlanFilter { limit, ..filter }).await?
            }
            Some(pattern) => {
                matching_plans(&self.services, &filter, pattern, request.limit).await?
            }
        };
        if found.total == 0 {
            check_names_exist(&self.services, &request).await?;
        }
        let filters = PlanFilters {
            phase: request.phase,
            state: request.state,
            project: request.project,
            action: request.action,
            pattern: request.regex,
            folder_projects: Some(folder_projects).filter(|it| !it.is_empty()),
        };
        Ok(page_reply(found, filters, self.services.deps().clock.now()))
    }
}

async fn plans_page(services: &Services, filter: PlanFilter) -> Result<FoundPlans, RequestError> {
    let page = services.lifecycle().list_plans(filter).await?;
    Ok(FoundPlans {
        plans: page.plans,
        total: page.total,
        by_state: page.by_state,
    })
}

/// Scans all plans page by page; counts the matches and keeps the newest.
async fn matching_plans(
    services: &Services,
    filter: &PlanFilter,
    pattern: &NamePattern,
    limit: Option<u32>,
) -> Result<FoundPlans, RequestError> {
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut found = FoundPlans::default();
    let mut before = None;
    loop {
        let next = PlanFilter {
            limit: Some(PAGE),
            before,
            ..filter.clone()
        };
        let plans = plans_page(services, next).await?.plans;
        let Some(last) = plans.last() else {
            return Ok(found);
        };
        let next = Some(PlanCursor::from(last));
        if next == before {
            return Ok(found);
        }
        before = next;
        for plan in plans {
            if !matches(&plan, pattern) {
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

/// Fails if a project or action does not exist. Called only if no plan was found, because plans
/// outlive both.
async fn check_names_exist(services: &Services, request: &PlanList) -> Result<(), RequestError> {
    if let Some(project) = request.project.clone() {
        let look = services.store().read(move |tx| tx.project(&project));
        let found: Result<_, StoreError> = look.await;
        found.map_err(|error| {
            RequestError::from(error).hint(NextStep::send(&ProjectList::default()))
        })?;
    }
    if let Some(action) = &request.action {
        let found = services.action_registry().action(action.clone()).await;
        if let Err(LifecycleError::Store(StoreError::NotFound { .. })) = found {
            let unknown = UnknownAction {
                name: action.clone(),
                in_files: Vec::new(),
            };
            return Err(unknown_action_failure(services, &unknown).await);
        }
    }
    Ok(())
}

fn matches(plan: &Plan, pattern: &NamePattern) -> bool {
    let texts = [
        plan.name.to_string(),
        plan.brief.description.clone(),
        project_names(plan),
    ];
    texts.iter().any(|text| pattern.matches(text))
}

fn page_reply(found: FoundPlans, filters: PlanFilters, now: Timestamp) -> Reply<PlanPage> {
    let count = |states: &[PlanState]| -> u64 {
        let counts = states.iter().map(|state| found.by_state.get(state));
        counts.flatten().sum()
    };
    let summary = PlanCounts {
        total: found.total,
        processing: count(&[PlanState::Processing]),
        completed: count(&[PlanState::Complete, PlanState::Applied]),
        errored: count(&[PlanState::Errored]),
        cancelled: count(&[PlanState::Cancelled]),
        queued: count(&[PlanState::Queued]),
        constrained: count(&[PlanState::Constrained]),
        unapplied: count(&[PlanState::Unapplied]),
    };
    let listed = found.plans.len();
    let reply = Reply::new(PlanPage {
        plans: found
            .plans
            .iter()
            .map(|plan| listed_plan(plan, now))
            .collect(),
        filters,
        summary,
    });
    let reply = reply.info(format!("{} listed", format_length(listed, "plan")));
    match found.total.saturating_sub(listed as u64) {
        0 => reply,
        more => reply.info(format!("{more} more match; see them with --limit")),
    }
}

fn listed_plan(plan: &Plan, now: Timestamp) -> ListedPlan {
    ListedPlan {
        plan: PlanSummary::from(plan),
        id: plan.identity.plan_id,
        elapsed: format_duration(elapsed(plan, now)),
        description: plan.brief.description.clone(),
        created_at: plan.timestamps.created_at,
    }
}
