//! `validation.remove`

use cleveragents_api::Reply;
use cleveragents_api::validation::{ValidationRemove, ValidationRemoved};

use super::details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::validation::validation_failure;

impl Handler<ValidationRemove> for App {
    async fn handle(
        &self,
        request: ValidationRemove,
        caller: &Caller,
    ) -> Result<Reply<ValidationRemoved>, RequestError> {
        let name = request.name;
        let removed = self
            .services
            .validations()
            .remove(name.clone(), &caller.who)
            .await;
        let row = match removed {
            Ok(row) => row,
            Err(error) => return Err(validation_failure(&self.services, error, &name).await),
        };
        let answer = ValidationRemoved {
            validation_removed: details(row),
        };
        Ok(Reply::new(answer).info("Validation removed"))
    }
}
