//! `plan.checkpoints`

use cleveragents_api::Reply;
use cleveragents_api::plan::PlanCheckpoints;
use cleveragents_api::plan::checkpoints::{CheckpointCounts, CheckpointPage, PlanCheckpoint};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::find::find_plan;
use crate::text::format_length;

impl Handler<PlanCheckpoints> for App {
    async fn handle(
        &self,
        request: PlanCheckpoints,
        _: &Caller,
    ) -> Result<Reply<CheckpointPage>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let found = self
            .services
            .store()
            .read(move |tx| tx.checkpoints_of(id))
            .await?;
        let total = found.len();
        let newest_first = found.into_iter().rev().map(PlanCheckpoint::from);
        let reply = Reply::new(CheckpointPage {
            plan_id: id,
            checkpoints: newest_first.collect(),
            summary: CheckpointCounts { total },
        });
        Ok(reply.info(format!("{} listed", format_length(total, "checkpoint"))))
    }
}
