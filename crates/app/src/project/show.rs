//! `project.show`

use cleveragents_api::Reply;
use cleveragents_api::project::{ProjectContents, ProjectPlans, ProjectShow};

use super::{details, link_step, rule};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::resource;

impl Handler<ProjectShow> for App {
    async fn handle(
        &self,
        request: ProjectShow,
        _: &Caller,
    ) -> Result<Reply<ProjectContents>, RequestError> {
        let found = self.services.projects().show(request.name).await?;
        let unfinished = found.plans.iter().filter(|(state, _)| !state.is_terminal());
        let plans = ProjectPlans {
            total: found.plans.values().sum(),
            unfinished: unfinished.map(|(_, number)| number).sum(),
            by_state: found.plans,
        };
        let link = found
            .resources
            .is_empty()
            .then(|| link_step(&found.project.name));
        let resources = found.resources.into_iter();
        let reply = Reply::new(ProjectContents {
            project: details(found.project),
            resources: resources.map(resource::details).collect(),
            invariants: found.invariants.into_iter().map(rule).collect(),
            plans,
        });
        Ok(match link {
            Some(step) => reply.hint(step),
            None => reply,
        })
    }
}
