//! `validation.attach`

use cleveragents_api::plan::PlanReference;
use cleveragents_api::validation::{ValidationAttach, ValidationAttached, ValidationDetach};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::AttachmentScope;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_engine::validations::{
    AttachmentRequest, AttachmentView, ValidationRegistryError, read_arguments,
};
use cleveragents_ports::{Entity, StoreError};

use super::attachment_details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::list_step;
use crate::services::Services;
use crate::validation::validation_failure;

impl Handler<ValidationAttach> for App {
    async fn handle(
        &self,
        request: ValidationAttach,
        caller: &Caller,
    ) -> Result<Reply<ValidationAttached>, RequestError> {
        let args = read_arguments(&request.args).map_err(ValidationRegistryError::from)?;
        let validation = request.validation;
        let attachment = AttachmentRequest {
            validation: validation.clone(),
            resource: request.resource,
            scope: attachment_scope(&self.services, request.project, request.plan).await?,
            args,
        };
        let attached = self
            .services
            .validations()
            .attach(attachment, &caller.who)
            .await;
        match attached {
            Ok(attached) => Ok(attached_reply(attached)),
            Err(error) => {
                let missing = missing_entity(&error);
                let failure = validation_failure(&self.services, error, &validation).await;
                Err(match missing {
                    Some(missing) => with_list_step(failure, missing),
                    None => failure,
                })
            }
        }
    }
}

pub(super) async fn attachment_scope(
    services: &Services,
    project: Option<NamespacedName>,
    plan: Option<PlanReference>,
) -> Result<AttachmentScope, RequestError> {
    match (project, plan) {
        (Some(_), Some(_)) => Err(RequestError::usage(
            "an attachment is for a project or for a plan, not for both",
        )),
        (Some(project), None) => Ok(AttachmentScope::Project(project)),
        (None, None) => Ok(AttachmentScope::Direct),
        (None, Some(plan)) => {
            let found = services.lifecycle().find_plan(plan.0).await;
            let plan = found.map_err(|error| match error {
                LifecycleError::Store(StoreError::NotFound { .. }) => {
                    with_list_step(error.into(), Entity::Plan)
                }
                _ => error.into(),
            })?;
            Ok(AttachmentScope::Plan(plan.identity.plan_id))
        }
    }
}

/// Returns what is missing, other than the validation itself.
fn missing_entity(error: &ValidationRegistryError) -> Option<Entity> {
    match error {
        ValidationRegistryError::Store(StoreError::NotFound { entity, .. }) => {
            Some(*entity).filter(|it| *it != Entity::Validation)
        }
        _ => None,
    }
}

/// Adds the step of listing the records of the kind that is missing.
fn with_list_step(failure: RequestError, missing: Entity) -> RequestError {
    failure
        .because(format!("no {missing} has that name, or it was removed"))
        .hints(list_step(missing))
}

fn attached_reply(attached: AttachmentView) -> Reply<ValidationAttached> {
    let resource = &attached.resource;
    let counts = match &attached.attachment.scope {
        AttachmentScope::Direct => format!("it applies to every plan on {resource}"),
        AttachmentScope::Project(project) => {
            format!("it applies to plans of {project} on {resource}")
        }
        AttachmentScope::Plan(plan) => format!("it applies to the plan {}", plan.short()),
    };
    let short = attached.attachment.id.short();
    let detach = NextStep::fill_in::<ValidationDetach>(&[("attachment", &short)]);
    Reply::new(ValidationAttached {
        validation_attached: attachment_details(attached),
    })
    .info(format!("Validation attached: {counts}"))
    .hint(detach)
}
