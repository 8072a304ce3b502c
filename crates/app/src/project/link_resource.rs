//! `project.link_resource`

use cleveragents_api::Reply;
use cleveragents_api::project::{ChangedLink, ProjectLinkResource};
use cleveragents_engine::projects::LinkOutcome;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ProjectLinkResource> for App {
    async fn handle(
        &self,
        request: ProjectLinkResource,
        caller: &Caller,
    ) -> Result<Reply<ChangedLink>, RequestError> {
        let ProjectLinkResource { project, resource } = request;
        let service = self.services.projects();
        let linking = service.link(project.clone(), resource.clone(), &caller.who);
        let outcome = linking.await?;
        let said = match outcome {
            LinkOutcome::New => format!("{resource} linked to {project}"),
            LinkOutcome::Unchanged => format!("{resource} is already linked to {project}"),
        };
        let answer = ChangedLink {
            project,
            resource,
            changed: outcome == LinkOutcome::New,
        };
        Ok(Reply::new(answer).info(said))
    }
}
