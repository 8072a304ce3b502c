//! `project.create`

use cleveragents_api::project::{
    CreatedProject, CreatedProjectResource, ProjectCreate, ProjectShow,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::Resource;
use cleveragents_engine::projects::{LocatedResource, NewProject};

use super::{details, link_step, rule};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::resource;
use crate::text::format_length;

impl Handler<ProjectCreate> for App {
    async fn handle(
        &self,
        request: ProjectCreate,
        caller: &Caller,
    ) -> Result<Reply<CreatedProject>, RequestError> {
        let paths = request.path.iter();
        let locations = paths.map(|path| {
            self.services
                .adapters()
                .inspect_directory(path)?
                .to_location()
        });
        let locations: Vec<LocatedResource> = locations.collect::<Result<_, _>>()?;
        let rules = request.invariant.iter();
        let rules = rules.map(|text| self.services.mask_secrets(text));
        let invariants: Vec<String> = rules.collect::<Result<_, _>>()?;
        let new = NewProject {
            name: request.name,
            description: request.description,
            automation_profile: request.automation_profile,
            locations,
            invariants,
        };
        let created = self.services.projects().create(new, &caller.who).await?;
        let reused = created.reused;
        let resource = |one: Resource| CreatedProjectResource {
            reused: reused.contains(&one.name),
            resource: resource::details(one),
        };
        Ok(reply(CreatedProject {
            project: details(created.project),
            resources: created.resources.into_iter().map(resource).collect(),
            invariants: created.invariants.into_iter().map(rule).collect(),
        }))
    }
}

fn reply(created: CreatedProject) -> Reply<CreatedProject> {
    let name = created.project.name.clone();
    let with = match created.resources.len() {
        0 => "without resources".to_owned(),
        number => format!("with {}", format_length(number, "resource")),
    };
    let reused = created.resources.iter().filter(|it| it.reused);
    let reused: Vec<String> = reused
        .map(|CreatedProjectResource { resource, .. }| {
            format!(
                "{} is already registered and is linked as {}",
                resource.path, resource.name
            )
        })
        .collect();
    let is_empty = created.resources.is_empty();
    let reply = Reply::new(created).info(format!("project {name} created {with}"));
    let reply = reused.into_iter().fold(reply, Reply::info);
    if is_empty {
        reply.hint(resource::add_step()).hint(link_step(&name))
    } else {
        reply.hint(NextStep::send(&ProjectShow { name }))
    }
}
