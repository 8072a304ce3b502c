//! `project.delete`

use cleveragents_api::project::{DeletedProject, DeletionSummary, ProjectDelete};
use cleveragents_api::resource::ResourceList;
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::projects::{ActivePlanPolicy, ProjectError};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::services::Services;

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
        let service = self.services.projects();
        let deleted = service.delete(request.name, policy, &caller.who).await;
        let deleted = deleted.map_err(|error| delete_failure(&self.services, error))?;
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

/// Converts the error. If plans block the deletion, its data has the next steps as texts.
fn delete_failure(services: &Services, error: ProjectError) -> RequestError {
    let is_blocked = matches!(
        error,
        ProjectError::ActivePlans { .. }
            | ProjectError::Stopping { .. }
            | ProjectError::Applying { .. }
    );
    let failure = RequestError::from(error);
    if !is_blocked {
        return failure;
    }
    let steps = failure.next_steps.iter();
    let texts: Vec<String> = steps
        .map(|step| services.adapters().next_step_text(step))
        .collect();
    failure.with_facts(|facts| facts.resolution = Some(texts))
}
