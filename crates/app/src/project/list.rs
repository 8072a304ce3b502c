//! `project.list`

use cleveragents_api::Reply;
use cleveragents_api::project::{
    ProjectCounts, ProjectFilters, ProjectList, ProjectPage, ProjectSummary,
};
use cleveragents_engine::projects::ProjectView;

use super::{create_step, details};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;
use crate::text::format_listed;

impl Handler<ProjectList> for App {
    async fn handle(
        &self,
        request: ProjectList,
        _: &Caller,
    ) -> Result<Reply<ProjectPage>, RequestError> {
        let pattern = request.regex.as_deref().map(NamePattern::parse);
        let pattern = pattern.transpose()?;
        let mut found = self.services.projects().list().await?;
        found.retain(|one| {
            let pattern = pattern.as_ref();
            pattern.is_none_or(|pattern| pattern.matches(&one.project.name))
        });
        let total = found.len();
        let most = request.limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let projects: Vec<ProjectSummary> = found.into_iter().take(most).map(summary).collect();
        let said = format_listed(projects.len(), total, "project");
        let reply = Reply::new(ProjectPage {
            projects,
            filters: ProjectFilters {
                regex: request.regex,
                limit: request.limit,
            },
            summary: ProjectCounts { total },
        });
        let reply = reply.info(said);
        Ok(match total {
            0 => reply.hint(create_step()),
            _ => reply,
        })
    }
}

fn summary(found: ProjectView) -> ProjectSummary {
    let resources = found.resources.into_iter();
    ProjectSummary {
        project: details(found.project),
        resources: resources.map(|resource| resource.name).collect(),
        plans: found.plans.values().sum(),
    }
}
