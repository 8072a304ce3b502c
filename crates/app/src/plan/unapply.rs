//! `plan.unapply`

use cleveragents_api::plan::PlanApply;
use cleveragents_api::plan::unapply::{PlanUnapply, UnappliedPlan};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::apply_record::{ApplyRecord, Destination};
use cleveragents_engine::applying::Unapplied;

use crate::app::{App, Caller, Handler};
use crate::execution::apply_request;
use crate::failure::{RequestError, apply_conflict_failure, interrupted_request_failure};
use crate::plan::find::find_plan;

impl Handler<PlanUnapply> for App {
    async fn handle(
        &self,
        request: PlanUnapply,
        caller: &Caller,
    ) -> Result<Reply<UnappliedPlan>, RequestError> {
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        // The recovery of other applies may have taken long.
        if caller.has_cancelled() {
            return Err(interrupted_request_failure(id, &request));
        }
        let apply = apply_request(id, Destination::Current, caller);
        let again = NextStep::send(&PlanUnapply { plan: id.into() });
        let (plan, apply, text) = match self.services.apply_service(caller)?.unapply(&apply).await?
        {
            Unapplied::Done { plan, apply } if apply.is_without_changes() => {
                let text = "Unapplied: nothing of the plan was left to undo";
                (plan, apply, text)
            }
            Unapplied::Done { plan, apply } => (plan, apply, "Changes undone"),
            Unapplied::Unchanged { plan, apply } => {
                (plan, apply, "the changes were already undone")
            }
            Unapplied::Blocked { plan, conflicts } => {
                let what = "cannot unapply: conflicting files";
                return Err(apply_conflict_failure(&plan, &conflicts, what).hint(again));
            }
            Unapplied::Stopped {
                plan, conflicts, ..
            } => {
                let what =
                    "the target was changed meanwhile; files changed by others were not touched";
                return Err(apply_conflict_failure(&plan, &conflicts, what).hint(again));
            }
        };
        let apply_again = NextStep::send(&PlanApply {
            plan: id.into(),
            to: applied_to(&apply),
            mark_applied: false,
            force_checks: None,
        });
        let answer = UnappliedPlan {
            plan: (&plan).into(),
            apply_id: apply.id,
            resources: apply.resources.into_iter().map(|it| it.result).collect(),
        };
        Ok(Reply::new(answer).info(text).hint(apply_again))
    }
}

/// Returns where the plan was applied to; `None` for the current branch.
fn applied_to(apply: &ApplyRecord) -> Option<Destination> {
    Some(apply.destination.clone()).filter(|it| *it != Destination::Current)
}
