//! `resource.list`

use cleveragents_api::Reply;
use cleveragents_api::resource::{
    LinkedResource, ResourceCounts, ResourceFilters, ResourceList, ResourcePage,
};

use super::{add_step, linked};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;
use crate::text::format_listed;

impl Handler<ResourceList> for App {
    async fn handle(
        &self,
        request: ResourceList,
        _: &Caller,
    ) -> Result<Reply<ResourcePage>, RequestError> {
        let ResourceList {
            pattern,
            resource_type,
            limit,
        } = request;
        let names = pattern.as_deref().map(NamePattern::parse).transpose()?;
        let mut found = self.services.projects().project_map().await?.resources;
        found.retain(|one| {
            let names = names.as_ref();
            resource_type.is_none_or(|it| one.resource.resource_type == it)
                && names.is_none_or(|it| it.matches(&one.resource.name))
        });
        let total = found.len();
        let most = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let resources: Vec<LinkedResource> = found.into_iter().take(most).map(linked).collect();
        let said = format_listed(resources.len(), total, "resource");
        let reply = Reply::new(ResourcePage {
            resources,
            filters: ResourceFilters {
                resource_type,
                pattern,
                limit,
            },
            summary: ResourceCounts { total },
        });
        let reply = reply.info(said);
        Ok(match total {
            0 => reply.hint(add_step()),
            _ => reply,
        })
    }
}
