//! Changes the budget of a plan at the user's request.

use cleveragents_domain::event::payloads::PlanBudgetChanged;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Budget, Plan, StreamId};

use super::PlanLifecycle;
use super::commands::{evict, hold_unowned};
use super::error::{LifecycleError, Result};
use crate::journal::new_event;

impl PlanLifecycle {
    /// Sets the limits that `requested` contains; the others stay. Fails while another process runs
    /// the plan, because it would not notice the change, and if a limit exceeds the plan's profile.
    pub async fn change_budget(
        &self,
        plan: PlanId,
        requested: Budget,
        actor: &str,
    ) -> Result<Plan> {
        let known = self.proven_owner(plan).await?;
        let actor = actor.to_owned();
        self.store
            .write(self.operation("plan.change-budget"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let mut held = tx.plan_for_update(plan)?;
                if held.position.is_terminal() {
                    return Err(LifecycleError::Final {
                        plan: Box::new(held),
                    });
                }
                let before = held.brief.budget;
                let after = Budget {
                    usd: requested.usd.or(before.usd),
                    tokens: requested.tokens.or(before.tokens),
                    wall: requested.wall.or(before.wall),
                };
                check_allowed(&held, requested)?;
                if after == before {
                    return Ok(held);
                }
                held.brief.budget = after;
                held.timestamps.updated_at = tx.now()?;
                held.version = tx.update_plan(&held)?;
                evict(tx, run.as_ref(), &actor)?;
                let changed = PlanBudgetChanged {
                    from: before,
                    to: after,
                };
                tx.append(StreamId::Plan(plan), &[new_event(&actor, &changed)?])?;
                Ok(held)
            })
            .await
    }
}

fn check_allowed(plan: &Plan, requested: Budget) -> Result<()> {
    let profile = &plan.brief.automation_profile;
    match (requested.usd, profile.guards.max_total_cost) {
        (Some(usd), Some(most)) if usd > most => Err(LifecycleError::Invalid {
            reason: format!(
                "the plan's automation profile {} allows at most {most} USD, not {usd}",
                profile.name
            ),
        }),
        _ => Ok(()),
    }
}
