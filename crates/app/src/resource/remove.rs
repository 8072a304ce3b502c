//! `resource.remove`

use cleveragents_api::Reply;
use cleveragents_api::resource::{RemovedResource, ResourceRemove};

use super::details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<ResourceRemove> for App {
    async fn handle(
        &self,
        request: ResourceRemove,
        caller: &Caller,
    ) -> Result<Reply<RemovedResource>, RequestError> {
        let service = self.services.projects();
        let removed = service.remove_resource(request.name, &caller.who).await?;
        let said = format!("resource {} removed, its files stay", removed.name);
        let answer = RemovedResource {
            removed: details(removed),
        };
        Ok(Reply::new(answer).info(said))
    }
}
