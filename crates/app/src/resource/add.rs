//! `resource.add`

use cleveragents_api::Reply;
use cleveragents_api::resource::{ResourceAdd, ResourceDetails};
use cleveragents_domain::ResourceType;

use super::{details, link_step};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::resource_directory::DirectoryKind;

impl Handler<ResourceAdd> for App {
    async fn handle(
        &self,
        request: ResourceAdd,
        caller: &Caller,
    ) -> Result<Reply<ResourceDetails>, RequestError> {
        let directory = self.services.adapters().inspect_directory(&request.path)?;
        let location = directory.to_location_as(request.resource_type)?;
        let service = self.services.projects();
        let adding = service.add_resource(request.name, location, &caller.who);
        let resource = details(adding.await?);
        let (said, link) = (
            format!("resource {} registered", resource.name),
            link_step(&resource.name),
        );
        let copies_checkout = resource.resource_type == ResourceType::FsDirectory
            && directory.kind == DirectoryKind::GitCheckout;
        let reply = Reply::new(resource).info(said);
        let reply = if copies_checkout {
            reply.warn(
                "it is a git checkout: as a folder it is copied whole, and work on it makes no \
                 commit",
            )
        } else {
            reply
        };
        Ok(reply.hint(link))
    }
}
