//! `validation.detach`

use cleveragents_api::validation::{ValidationDetach, ValidationDetached, ValidationList};
use cleveragents_api::{ExitClass, NextStep, Reply};

use super::attachment_details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ValidationDetach> for App {
    async fn handle(
        &self,
        request: ValidationDetach,
        caller: &Caller,
    ) -> Result<Reply<ValidationDetached>, RequestError> {
        let validations = self.services.validations();
        let detached = validations.detach(request.attachment, &caller.who).await;
        let detached = detached.map_err(|error| {
            let failure = RequestError::from(error);
            match failure.exit {
                ExitClass::NotFound => failure
                    .because("it never existed or was detached")
                    .hint(NextStep::send(&ValidationList::default())),
                _ => failure,
            }
        })?;
        let answer = ValidationDetached {
            validation_detached: attachment_details(detached),
        };
        Ok(Reply::new(answer).info("Validation detached"))
    }
}
