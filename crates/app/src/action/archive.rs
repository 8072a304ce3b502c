//! `action.archive`

use cleveragents_api::Reply;
use cleveragents_api::action::{ActionArchive, ArchivedAction};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use super::show;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::project_actions::UnknownAction;

impl Handler<ActionArchive> for App {
    async fn handle(
        &self,
        request: ActionArchive,
        caller: &Caller,
    ) -> Result<Reply<ArchivedAction>, RequestError> {
        let name = request.name;
        let lifecycle = self.lifecycle();
        let archived = lifecycle.archive_action(name.clone(), &caller.who).await;
        let action = match archived {
            Err(LifecycleError::Store(StoreError::NotFound { .. })) => {
                let folders = self.enclosing_projects(request.folder.as_deref());
                let in_files = self.project_actions(&folders).actions.into_iter();
                let unknown = UnknownAction {
                    name,
                    in_files: in_files.map(|action| action.draft.name).collect(),
                };
                return Err(self.unknown_action_failure(&unknown).await);
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
