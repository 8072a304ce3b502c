//! `action.show`

use cleveragents_api::Reply;
use cleveragents_api::action::{ActionDetails, ActionShow};

use super::use_step;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::project_actions::{FoundAction, shadowed_warning};

impl Handler<ActionShow> for App {
    async fn handle(
        &self,
        request: ActionShow,
        _: &Caller,
    ) -> Result<Reply<ActionDetails>, RequestError> {
        let folders = self.enclosing_projects(request.folder.as_deref());
        let (details, shadowed) = match self.find_action(&request.name, &folders).await? {
            Ok(FoundAction::Registered { action, shadowed }) => {
                (self.registered_details(&action).await?, shadowed)
            }
            Ok(FoundAction::File(action)) => (self.file_details(*action).await?, None),
            Err(unknown) => return Err(self.unknown_action_failure(&unknown).await),
        };
        let step = use_step(&details);
        let reply = Reply::new(details).hint(step);
        Ok(match shadowed {
            Some(file) => reply.warn(shadowed_warning(&request.name, &file)),
            None => reply,
        })
    }
}
