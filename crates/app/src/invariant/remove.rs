//! `invariant.remove`

use cleveragents_api::invariant::{InvariantDetails, InvariantList, InvariantRemove};
use cleveragents_api::{ExitClass, NextStep, Reply};

use super::details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<InvariantRemove> for App {
    async fn handle(
        &self,
        request: InvariantRemove,
        caller: &Caller,
    ) -> Result<Reply<InvariantDetails>, RequestError> {
        let removed = self
            .services
            .invariants()
            .remove(request.id, &caller.who)
            .await;
        let removed = removed.map_err(|error| {
            let failure = RequestError::from(error);
            match failure.exit {
                ExitClass::NotFound => failure
                    .because("it never existed or was removed")
                    .hint(NextStep::send(&InvariantList::default())),
                _ => failure,
            }
        })?;
        Ok(Reply::new(details(&removed)).info("Invariant removed"))
    }
}
