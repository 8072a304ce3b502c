//! `validation.attach`

use cleveragents_api::validation::{ValidationAttach, ValidationAttached, ValidationDetach};
use cleveragents_api::{ExitClass, NextStep, Reply};
use cleveragents_domain::AttachmentScope;
use cleveragents_domain::NamespacedName;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::validations::{
    AttachmentRequest, AttachmentView, ValidationRegistryError, read_arguments,
};

use super::attachment_details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

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
            scope: self.attachment_scope(request.project, request.plan).await?,
            args,
        };
        let attached = self.validations().attach(attachment, &caller.who).await;
        match attached {
            Ok(attached) => Ok(attached_reply(attached)),
            Err(error) => {
                let failure = self.validation_failure(error, &validation).await;
                Err(with_list_hint(failure))
            }
        }
    }
}

impl App {
    async fn attachment_scope(
        &self,
        project: Option<NamespacedName>,
        plan: Option<IdFragment>,
    ) -> Result<AttachmentScope, RequestError> {
        match (project, plan) {
            (Some(_), Some(_)) => Err(RequestError::usage(
                "an attachment is for a project or for a plan, not for both",
            )),
            (Some(project), None) => Ok(AttachmentScope::Project(project)),
            (None, None) => Ok(AttachmentScope::Direct),
            (None, Some(plan)) => {
                let found = self.lifecycle().find_plan(plan).await;
                let plan = found.map_err(|error| with_list_hint(error.into()))?;
                Ok(AttachmentScope::Plan(plan.identity.plan_id))
            }
        }
    }
}

/// Adds the command that lists the available items to the failure for a missing one.
fn with_list_hint(failure: RequestError) -> RequestError {
    if failure.exit != ExitClass::NotFound || !failure.next_steps.is_empty() {
        return failure;
    }
    let list = ["resource", "project", "plan"]
        .into_iter()
        .find(|noun| failure.message.starts_with(&format!("there is no {noun} ")));
    match list {
        Some(noun) => failure
            .because(format!("no {noun} has that name, or it was removed"))
            .hint(format!("agents {noun} list")),
        None => failure,
    }
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
