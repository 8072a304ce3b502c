//! `action.archive`

use cleveragents_api::Reply;
use cleveragents_api::action::{ActionArchive, ArchivedAction};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use super::show;
use crate::action::unknown_action_failure;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::project_actions::{UnknownAction, enclosing_projects, project_actions};

impl Handler<ActionArchive> for App {
    async fn handle(
        &self,
        request: ActionArchive,
        caller: &Caller,
    ) -> Result<Reply<ArchivedAction>, RequestError> {
        let name = request.name;
        let actions = self.services.action_registry();
        let archived = actions.archive(name.clone(), &caller.who).await;
        let action = match archived {
            Err(LifecycleError::Store(StoreError::NotFound { .. })) => {
                let folders = enclosing_projects(&self.services, request.folder.as_deref());
                let in_files = project_actions(&self.services, &folders)
                    .actions
                    .into_iter();
                let unknown = UnknownAction {
                    name,
                    in_files: in_files.map(|action| action.draft.name).collect(),
                };
                return Err(unknown_action_failure(&self.services, &unknown).await);
            }
            archived => archived?,
        };
        let step = show(&action.name);
        let answer = ArchivedAction {
            name: action.name,
            id: action.id,
            state: action.state,
            updated_at: action.updated_at,
            version: action.version,
        };
        Ok(Reply::new(answer).info("Action archived").hint(step))
    }
}
