//! `project.unlink_resource`

use cleveragents_api::Reply;
use cleveragents_api::project::{ChangedLink, ProjectUnlinkResource};
use cleveragents_engine::projects::UnlinkOutcome;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ProjectUnlinkResource> for App {
    async fn handle(
        &self,
        request: ProjectUnlinkResource,
        caller: &Caller,
    ) -> Result<Reply<ChangedLink>, RequestError> {
        let ProjectUnlinkResource { project, resource } = request;
        let service = self.services.projects();
        let unlinking = service.unlink(project.clone(), resource.clone(), &caller.who);
        let outcome = unlinking.await?;
        let said = match outcome {
            UnlinkOutcome::Done => format!("{resource} unlinked from {project}"),
            UnlinkOutcome::Unchanged => format!("{resource} was not linked to {project}"),
        };
        let answer = ChangedLink {
            project,
            resource,
            changed: outcome == UnlinkOutcome::Done,
        };
        Ok(Reply::new(answer).info(said))
    }
}
