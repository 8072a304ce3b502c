//! `validation.show`

use cleveragents_api::Reply;
use cleveragents_api::validation::{ValidationShow, ValidationWithAttachments};

use super::{attach_step, attachment_details, details};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::validation::validation_failure;

impl Handler<ValidationShow> for App {
    async fn handle(
        &self,
        request: ValidationShow,
        _: &Caller,
    ) -> Result<Reply<ValidationWithAttachments>, RequestError> {
        let name = request.name;
        let found = self.services.validations().validation(name.clone()).await;
        let (row, attachments) = match found {
            Ok(found) => found,
            Err(error) => return Err(validation_failure(&self.services, error, &name).await),
        };
        let is_unattached = attachments.is_empty();
        let reply = Reply::new(ValidationWithAttachments {
            validation: details(row),
            attachments: attachments.into_iter().map(attachment_details).collect(),
        });
        Ok(if is_unattached {
            reply.hint(attach_step(&name))
        } else {
            reply
        })
    }
}
