//! `invariant.list`

use cleveragents_api::invariant::{
    InvariantAdd, InvariantCounts, InvariantDetails, InvariantFilters, InvariantList,
    InvariantPage, ShadowedInvariant,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::InvariantScope;
use cleveragents_engine::invariants::{EffectiveRules, InvariantTarget};

use super::{details, rule_details, with_list_hint};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::invariant::plan_id;
use crate::name_pattern::NamePattern;
use crate::services::Services;
use crate::text::format_length;

impl Handler<InvariantList> for App {
    async fn handle(
        &self,
        request: InvariantList,
        _: &Caller,
    ) -> Result<Reply<InvariantPage>, RequestError> {
        check_scopes(&request)?;
        let project = request.project.clone();
        let listed = if request.effective {
            list_effective(&self.services, request).await
        } else {
            list_added(&self.services, request).await
        };
        listed.map_err(|failure| with_list_hint(failure, project.as_ref()))
    }
}

fn check_scopes(request: &InvariantList) -> Result<(), RequestError> {
    if request.effective {
        return if request.project.is_none() && request.plan.is_none() {
            Err(RequestError::usage("--effective needs --project or --plan")
                .because("the effective rules depend on the project and the plan")
                .hint(
                    NextStep::fill_in::<InvariantList>(&[("project", "PROJECT")])
                        .with_flag("effective"),
                ))
        } else {
            Ok(())
        };
    }
    let scopes = [
        ("--global", request.global),
        ("--project", request.project.is_some()),
        ("--action", request.action.is_some()),
        ("--plan", request.plan.is_some()),
    ];
    let mut given = scopes.iter().filter(|(_, is_given)| *is_given);
    match (given.next(), given.next()) {
        (Some((one, _)), Some((other, _))) => {
            let arguments = [("project", "PROJECT"), ("action", "ACTION")];
            let combined = NextStep::fill_in::<InvariantList>(&arguments).with_flag("effective");
            Err(
                RequestError::usage(format!("{one} and {other} name two scopes"))
                    .because("a rule belongs to one scope; to combine scopes use --effective")
                    .hint(combined),
            )
        }
        _ => Ok(()),
    }
}

fn parse_pattern(request: &InvariantList) -> Result<Option<NamePattern>, RequestError> {
    let pattern = request.pattern.as_deref();
    pattern.map(NamePattern::parse).transpose()
}

async fn list_added(
    services: &Services,
    request: InvariantList,
) -> Result<Reply<InvariantPage>, RequestError> {
    let pattern = parse_pattern(&request)?;
    let scope = match (request.project, request.action, &request.plan) {
        (Some(name), _, _) => Some(InvariantScope::Project(name)),
        (_, Some(name), _) => Some(InvariantScope::Action(name)),
        (_, _, Some(plan)) => Some(InvariantScope::Plan(plan_id(services, plan).await?)),
        _ => request.global.then_some(InvariantScope::Global),
    };
    let filters = InvariantFilters {
        scope: scope.as_ref().map(InvariantScope::kind),
        target: scope.as_ref().and_then(InvariantScope::target),
        pattern: request.pattern.clone(),
        ..InvariantFilters::default()
    };
    let mut rules = services.invariants().list(scope).await?;
    rules.retain(|it| pattern.as_ref().is_none_or(|one| one.matches(&it.text)));
    let total = rules.len();
    let limit = request.limit.unwrap_or(usize::MAX);
    let invariants: Vec<InvariantDetails> = rules.iter().take(limit).map(details).collect();
    let said = format!("{} listed", format_length(invariants.len(), "invariant"));
    let reply = Reply::new(InvariantPage {
        invariants,
        shadowed: None,
        filters,
        summary: InvariantCounts {
            total,
            shadowed: None,
        },
    });
    let reply = reply.info(said);
    Ok(match total {
        0 => reply.hint(NextStep::fill_in::<InvariantAdd>(&[("text", "TEXT")])),
        _ => reply,
    })
}

async fn list_effective(
    services: &Services,
    request: InvariantList,
) -> Result<Reply<InvariantPage>, RequestError> {
    let pattern = parse_pattern(&request)?;
    let mut filters = InvariantFilters {
        effective: true,
        pattern: request.pattern.clone(),
        ..InvariantFilters::default()
    };
    let target = match &request.plan {
        Some(plan) => {
            let plan = plan_id(services, plan).await?;
            filters.plan = Some(plan);
            InvariantTarget::Plan(plan)
        }
        None => {
            filters.project.clone_from(&request.project);
            filters.action.clone_from(&request.action);
            InvariantTarget::FuturePlans {
                projects: request.project.into_iter().collect(),
                action: request.action,
            }
        }
    };
    let effective = services.invariants().effective_rules(target).await?;
    let limit = request.limit.unwrap_or(usize::MAX);
    let mut page = effective_page(&effective, filters);
    if let Some(pattern) = pattern {
        page.invariants.retain(|it| pattern.matches(&it.text));
        page.summary.total = page.invariants.len();
    }
    page.invariants.truncate(limit);
    let number = page.invariants.len();
    let said = format!("{} in effect", format_length(number, "invariant"));
    Ok(Reply::new(page).info(said))
}

fn effective_page(effective: &EffectiveRules, filters: InvariantFilters) -> InvariantPage {
    let shadowed = effective.shadowed.iter().map(|shadowed| ShadowedInvariant {
        rule: rule_details(&shadowed.rule),
        shadowed_by: rule_details(&effective.rules[shadowed.shadowed_by]),
    });
    InvariantPage {
        invariants: effective.rules.iter().map(rule_details).collect(),
        shadowed: Some(shadowed.collect()),
        filters,
        summary: InvariantCounts {
            total: effective.rules.len(),
            shadowed: Some(effective.shadowed.len()),
        },
    }
}
