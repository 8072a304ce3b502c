//! `action.show`

use cleveragents_api::Reply;
use cleveragents_api::action::{ActionDetails, ActionShow};

use super::use_step;
use crate::action::{file_details, registered_details, unknown_action_failure};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::project_actions::{FoundAction, enclosing_projects, find_action, shadowed_warning};

impl Handler<ActionShow> for App {
    async fn handle(
        &self,
        request: ActionShow,
        _: &Caller,
    ) -> Result<Reply<ActionDetails>, RequestError> {
        let folders = enclosing_projects(&self.services, request.folder.as_deref());
        let (details, shadowed) = match find_action(&self.services, &request.name, &folders).await?
        {
            Ok(FoundAction::Registered { action, shadowed }) => {
                (registered_details(&self.services, &action).await?, shadowed)
            }
            Ok(FoundAction::File(action)) => (file_details(&self.services, *action).await?, None),
            Err(unknown) => return Err(unknown_action_failure(&self.services, &unknown).await),
        };
        let step = use_step(&details.name, &details.arguments);
        let reply = Reply::new(details).hint(step);
        Ok(match shadowed {
            Some(file) => reply.warn(shadowed_warning(&request.name, &file)),
            None => reply,
        })
    }
}
