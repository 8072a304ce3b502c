//! `invariant.add`

use cleveragents_api::invariant::{AddedInvariants, InvariantAdd, InvariantList, InvariantRemove};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::id::InvariantId;
use cleveragents_domain::{Invariant, InvariantScope};
use cleveragents_engine::invariants::{NewRule, RuleError};
use cleveragents_ports::StoreError;

use super::{details, with_list_hint};
use crate::app::{App, Caller, Handler};
use crate::failure::{RequestError, excerpt};
use crate::invariant::plan_id;
use crate::services::Services;
use crate::text::format_length;

impl Handler<InvariantAdd> for App {
    async fn handle(
        &self,
        request: InvariantAdd,
        caller: &Caller,
    ) -> Result<Reply<AddedInvariants>, RequestError> {
        let project = request.project.clone();
        let named = |failure| with_list_hint(failure, project.as_ref());
        let text = self.services.mask_secrets(request.text.trim())?;
        let non_overridable = request.non_overridable;
        let new = NewRule {
            text,
            scopes: scopes(&self.services, request).await.map_err(named)?,
            non_overridable,
        };
        let added = self.services.invariants().add(new, &caller.who).await;
        let added = added.map_err(|error| named(add_failure(error)))?;
        let said = message(&added);
        let answer = AddedInvariants {
            invariants: added.iter().map(details).collect(),
        };
        let list = NextStep::send(&InvariantList::default());
        Ok(Reply::new(answer).info(said).hint(list))
    }
}

async fn scopes(
    services: &Services,
    request: InvariantAdd,
) -> Result<Vec<InvariantScope>, RequestError> {
    let actions = request.action.into_iter().map(InvariantScope::Action);
    let mut scopes: Vec<InvariantScope> = actions.collect();
    scopes.extend(request.project.map(InvariantScope::Project));
    for plan in &request.plan {
        scopes.push(InvariantScope::Plan(plan_id(services, plan).await?));
    }
    if scopes.is_empty() {
        scopes.push(InvariantScope::Global);
    }
    Ok(scopes)
}

fn message(added: &[Invariant]) -> String {
    match added {
        [one] if one.non_overridable => {
            "Invariant added for every plan, non-overridable".to_owned()
        }
        [one] => match &one.scope {
            InvariantScope::Global => "Invariant added for every plan".to_owned(),
            InvariantScope::Project(name) => format!("Invariant added for the project {name}"),
            InvariantScope::Action(name) => format!("Invariant added for the action {name}"),
            InvariantScope::Plan(plan) => {
                format!("Invariant added for the plan {}", plan.short())
            }
        },
        _ => format!("{} added", format_length(added.len(), "invariant")),
    }
}

/// Adds the existing rule to the failure for the same text in the same scope.
fn add_failure(error: RuleError) -> RequestError {
    match error {
        RuleError::Store(StoreError::Taken { name, holder, .. }) => {
            let what = format!("this rule already exists: `{}`", excerpt(name.trim()));
            let mut failure = RequestError::new(ExitClass::Conflict, what)
                .kind(FailureKind::Taken)
                .because("a scope has each rule once; case and spaces are ignored")
                .hint(NextStep::send(&InvariantList::default()));
            if let Ok(id) = holder.parse::<InvariantId>() {
                let remove = NextStep::fill_in::<InvariantRemove>(&[("id", &id.short())]);
                failure = failure
                    .hint(remove)
                    .with_facts(|facts| facts.invariant_id = Some(id));
            }
            failure
        }
        other => other.into(),
    }
}
