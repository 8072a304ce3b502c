//! `resource.show`

use cleveragents_api::Reply;
use cleveragents_api::resource::{LinkedResource, ResourceShow};

use super::{link_step, linked};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ResourceShow> for App {
    async fn handle(
        &self,
        request: ResourceShow,
        _: &Caller,
    ) -> Result<Reply<LinkedResource>, RequestError> {
        let found = linked(self.services.projects().show_resource(request.name).await?);
        let link = found
            .projects
            .is_empty()
            .then(|| link_step(&found.resource.name));
        let reply = Reply::new(found);
        Ok(match link {
            Some(step) => reply.hint(step),
            None => reply,
        })
    }
}
