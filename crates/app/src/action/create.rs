//! `action.create`

use cleveragents_api::action::{ActionCreate, ActionDetails, ActionValidate};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_definitions::read_action;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use super::{show, use_step};
use crate::action::registered_details;
use crate::app::{App, Caller, Handler};
use crate::definition::parse;
use crate::failure::RequestError;

impl Handler<ActionCreate> for App {
    async fn handle(
        &self,
        request: ActionCreate,
        caller: &Caller,
    ) -> Result<Reply<ActionDetails>, RequestError> {
        let file = &request.config.argument;
        let draft = parse(&request.config, read_action).map_err(|errors| {
            let validate = NextStep::fill_in::<ActionValidate>(&[("file", file)]);
            RequestError::from(errors).hint(validate)
        })?;
        let actions = self.services.action_registry();
        let put = if request.update {
            actions.update(draft, &caller.who).await
        } else {
            actions.create(draft, &caller.who).await
        };
        let action = put.map_err(|error| create_failure(error, file))?;
        let said = match action.version {
            1 => "Action created",
            _ => "Action updated",
        };
        let details = registered_details(&self.services, &action).await?;
        let step = use_step(&details.name, &details.arguments);
        Ok(Reply::new(details).info(said).hint(step))
    }
}

/// Adds the request that replaces the existing action to the failure for a taken name.
fn create_failure(error: LifecycleError, file: &str) -> RequestError {
    let (name, holder) = match error {
        LifecycleError::Store(StoreError::Taken { name, holder, .. }) => (name, holder),
        other => return other.into(),
    };
    let what = format!("the action {name} is already registered");
    let failure = RequestError::new(ExitClass::Conflict, what)
        .kind(FailureKind::Taken)
        .because("use --update to replace it")
        .hint(NextStep::fill_in::<ActionCreate>(&[("config", file)]).with_flag("update"));
    let failure = match name.parse() {
        Ok(name) => failure.hint(show(&name)),
        Err(_) => failure,
    };
    failure.with_facts(|facts| facts.holder = holder.parse().ok())
}
