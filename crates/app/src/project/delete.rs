//! `project.delete`

use cleveragents_api::project::{DeletedProject, DeletionSummary, ProjectDelete};
use cleveragents_api::resource::ResourceList;
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::projects::ActivePlanPolicy;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ProjectDelete> for App {
    async fn handle(
        &self,
        request: ProjectDelete,
        caller: &Caller,
    ) -> Result<Reply<DeletedProject>, RequestError> {
        let policy = if request.force {
            ActivePlanPolicy::Cancel
        } else {
            ActivePlanPolicy::Refuse
        };
        let service = self.projects();
        let deleted = service.delete(request.name, policy, &caller.who).await?;
        let said = format!("project {} deleted", deleted.project);
        let keeps_resources = !deleted.resources_unlinked.is_empty();
        let answer = DeletedProject {
            deletion_summary: DeletionSummary {
                project: deleted.project,
                resources_unlinked: deleted.resources_unlinked,
                plans_cancelled: deleted.plans_cancelled,
            },
        };
        let reply = Reply::new(answer).info(said);
        Ok(if keeps_resources {
            reply.hint(NextStep::send(&ResourceList::default()))
        } else {
            reply
        })
    }
}
