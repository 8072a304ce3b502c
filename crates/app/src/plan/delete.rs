//! `plan.delete`

use cleveragents_api::plan::delete::DeletedPlan;
use cleveragents_api::plan::{PlanDelete, PlanPurge, PlanSummary, PlanVerify};
use cleveragents_api::{NextStep, Reply};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::find::find_plan;

impl Handler<PlanDelete> for App {
    async fn handle(
        &self,
        request: PlanDelete,
        caller: &Caller,
    ) -> Result<Reply<DeletedPlan>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let deleted = self.services.lifecycle().delete(id, &caller.who).await?;
        let answer = DeletedPlan {
            plan: PlanSummary::from(&deleted),
            deleted: true,
        };
        let verify = NextStep::send(&PlanVerify {
            plan: id.into(),
            expect: None,
        });
        // Only the id: the reason is for the user to choose.
        let purge = NextStep::fill_in::<PlanPurge>(&[("plan", &id.to_string())]);
        Ok(Reply::new(answer)
            .info("Plan deleted; its journal is kept")
            .hint(verify)
            .hint(purge))
    }
}
