//! `validation.add`

use cleveragents_api::validation::{
    ChangedValidation, ValidationAdd, ValidationAdded, ValidationShow,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_definitions::read_validation;
use cleveragents_domain::{NamespacedName, Validation};
use cleveragents_engine::actors::RegistryChange;
use cleveragents_engine::validations::ValidationRegistryError;
use cleveragents_ports::StoreError;

use super::{attach_step, details};
use crate::app::{App, Caller, Handler};
use crate::definition::{change, duplicate_policy, parse};
use crate::failure::{RequestError, name_taken_failure};
use crate::services::Services;

impl Handler<ValidationAdd> for App {
    async fn handle(
        &self,
        request: ValidationAdd,
        caller: &Caller,
    ) -> Result<Reply<ValidationAdded>, RequestError> {
        let validation = read_validation_to_add(&request)?;
        let policy = duplicate_policy(request.update);
        let validations = self.services.validations();
        let added = validations.add(validation, policy, &caller.who).await;
        let (row, registered) = match added {
            Ok(added) => added,
            Err(error) => {
                let file = &request.config.argument;
                return Err(validation_add_failure(&self.services, error, file).await);
            }
        };
        let said = match registered {
            RegistryChange::Added => "Validation added",
            RegistryChange::Updated => "Validation updated",
        };
        let step = attach_step(&row.validation.name);
        let answer = ValidationAdded {
            validation_added: ChangedValidation {
                validation: details(row),
                change: change(registered),
            },
        };
        Ok(Reply::new(answer).info(said).hint(step))
    }
}

/// Parses the definition to add. Needs no database, so a front end can refuse an invalid one before
/// it opens the database.
pub fn read_validation_to_add(request: &ValidationAdd) -> Result<Validation, RequestError> {
    parse(&request.config, read_validation)
        .map_err(|errors| RequestError::from(errors).hint("agents validation add --help"))
}

/// Adds the request that replaces the existing validation to the failure for a taken name.
async fn validation_add_failure(
    services: &Services,
    error: ValidationRegistryError,
    file: &str,
) -> RequestError {
    let ValidationRegistryError::Store(StoreError::Taken { name, .. }) = &error else {
        return error.into();
    };
    let replace = NextStep::fill_in::<ValidationAdd>(&[("config", file)]).with_flag("update");
    let Ok(taken) = name.parse::<NamespacedName>() else {
        return name_taken_failure("validation", name, None).hint(replace);
    };
    let show = NextStep::send(&ValidationShow {
        name: taken.clone(),
    });
    let since = match services.validations().validation(taken).await {
        Ok((row, _)) => Some(row.created_at),
        Err(_) => None,
    };
    name_taken_failure("validation", name, since)
        .hint(replace)
        .hint(show)
}
