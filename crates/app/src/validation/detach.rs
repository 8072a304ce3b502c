//! `validation.detach`

use cleveragents_api::validation::{ValidationDetach, ValidationDetached, ValidationList};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::NamespacedName;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::validations::{AttachmentView, ValidationRegistryError, read_arguments};

use super::attach::attachment_scope;
use super::attachment_details;
use crate::app::{App, Caller, Handler};
use crate::failure::{RequestError, excerpt};
use crate::services::Services;

impl Handler<ValidationDetach> for App {
    async fn handle(
        &self,
        request: ValidationDetach,
        caller: &Caller,
    ) -> Result<Reply<ValidationDetached>, RequestError> {
        let attachment = match &request.validation {
            Some(validation) => find_attached(&self.services, &request, validation).await?,
            None => parse_id(&request.attachment)?,
        };
        let validations = self.services.validations();
        let detached = validations.detach(attachment, &caller.who).await;
        let detached = detached.map_err(|error| {
            let failure = RequestError::from(error);
            match failure.exit {
                ExitClass::NotFound => failure
                    .because("it never existed or was detached")
                    .hint(list_step()),
                _ => failure,
            }
        })?;
        let answer = ValidationDetached {
            validation_detached: attachment_details(detached),
        };
        Ok(Reply::new(answer).info("Validation detached"))
    }
}

fn list_step() -> NextStep {
    NextStep::send(&ValidationList::default())
}

fn parse_id(text: &str) -> Result<IdFragment, RequestError> {
    text.parse().map_err(|error| {
        let failure = RequestError::usage("invalid attachment").caused_by(&error);
        failure
            .because("give the id of an attachment, or the resource and the validation")
            .hint(list_step())
    })
}

/// Finds the attachment by what it was attached with.
async fn find_attached(
    services: &Services,
    request: &ValidationDetach,
    validation: &NamespacedName,
) -> Result<IdFragment, RequestError> {
    let resource: NamespacedName = request.attachment.parse().map_err(|error| {
        let shown = excerpt(&request.attachment);
        RequestError::usage(format!("`{shown}` cannot be the name of a resource"))
            .kind(FailureKind::Name)
            .caused_by(&error)
    })?;
    let args = read_arguments(&request.args).map_err(ValidationRegistryError::from)?;
    let (project, plan) = (request.project.clone(), request.plan.clone());
    let scope = attachment_scope(services, project, plan).await?;
    let (_, mut found) = services.validations().validations().await?;
    found.retain(|it: &AttachmentView| {
        let is_same = it.resource == resource && it.attachment.validation == *validation;
        is_same
            && it.attachment.scope == scope
            && (request.args.is_empty() || it.attachment.args == args)
    });
    match found.as_slice() {
        [only] => Ok(only.attachment.id.into()),
        [] => {
            let what = format!("{validation} is not attached to {resource} like this");
            Err(RequestError::new(ExitClass::NotFound, what)
                .because("project, plan and arguments must be those of the attachment")
                .hint(list_step()))
        }
        several => {
            let ids = several.iter().map(|it| it.attachment.id.short());
            let ids: Vec<String> = ids.collect();
            let what = format!("{validation} is attached to {resource} {} times", ids.len());
            let failure = RequestError::usage(what).kind(FailureKind::Ambiguous);
            let steps = ids
                .iter()
                .map(|id| NextStep::fill_in::<ValidationDetach>(&[("attachment", id)]));
            Err(failure.hints(steps).with_candidates(ids.clone()))
        }
    }
}
