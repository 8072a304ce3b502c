//! `plan.revert`

use cleveragents_api::Reply;
use cleveragents_api::plan::revert::{PlanPosition, RevertedPlan};
use cleveragents_api::plan::{PlanRevert, PlanSummary};
use cleveragents_domain::lifecycle::MAX_REVERSIONS;
use cleveragents_domain::{Phase, Position};
use cleveragents_engine::lifecycle::PlanMoveOutcome;

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::execution::end_leftover_commands;
use crate::failure::RequestError;
use crate::plan::abandon::abandon_apply;
use crate::plan::find::find_plan;

const DEFAULT_REASON: &str = "reverted by hand";

impl Handler<PlanRevert> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanRevert,
        caller: &Caller,
    ) -> Result<Reply<RevertedPlan>, RequestError> {
        let reason = request.reason.as_deref().unwrap_or(DEFAULT_REASON);
        let reason = self.services.mask_secrets(reason)?;
        let to = request.to_phase.unwrap_or(Phase::Strategize);
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        let before = abandon_apply(&self.services, id, caller).await?;
        end_leftover_commands(&self.services, id, caller).await;
        let lifecycle = self.services.lifecycle();
        let moved = lifecycle.revert(id, to, &reason, &caller.who).await?;
        let reply = Reply::new(answer(&moved, before.position, reason));
        Ok(match moved {
            PlanMoveOutcome::Moved(_) => reply.info("Plan reverted"),
            PlanMoveOutcome::Unchanged(plan) => reply.info(format!(
                "nothing to revert: the plan is at {}",
                plan.position
            )),
        })
    }
}

fn answer(moved: &PlanMoveOutcome, before: Position, reason: String) -> RevertedPlan {
    let plan = moved.plan();
    let reversions = plan.position.reversions();
    RevertedPlan {
        plan: PlanSummary::from(plan),
        reason,
        from: PlanPosition {
            phase: before.phase(),
            state: before.state(),
        },
        reversions,
        reversions_left: MAX_REVERSIONS.saturating_sub(reversions),
    }
}
