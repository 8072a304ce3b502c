//! Decides whether a plan's profile lets it continue without the user's approval.

use cleveragents_domain::actor::Actor;
use cleveragents_domain::strategy::{Approver, StrategyRecord};
use cleveragents_domain::{Phase, Plan, ThresholdName};

use super::error::Result;
use super::executor::AutoApply;
use super::services::{EngineServices, PlanActors};
use super::strategize::estimate_risk;
use crate::confidence::{Assessment, EscalationDecision};
use crate::lifecycle::phase_operation;
use cleveragents_ports::StoreError;

impl EngineServices {
    /// Decides whether the profile lets the plan enter Execute.
    pub(super) async fn decide_escalation(
        &self,
        plan: &Plan,
        execution: &Actor,
    ) -> Result<EscalationDecision> {
        let assessed = self.assess(plan, execution, Phase::Execute).await?;
        let profile = &plan.brief.automation_profile;
        Ok(assessed.gate(profile, ThresholdName::StartExecute))
    }

    /// Decides the same for a plan that this process does not own.
    pub(super) async fn decide_unclaimed_escalation(
        &self,
        plan: &Plan,
    ) -> Result<EscalationDecision> {
        // Without a claim the actors can change after this read. The owner compares hashes before
        // it runs them.
        let actors = PlanActors::load(self, plan).await?;
        let execution = actors.get(&plan.brief.actors.execution_actor)?;
        self.decide_escalation(plan, execution).await
    }

    /// Decides whether an actor may execute a strategy that was approved for another version of
    /// it. A user approved exact calls, so it may not. A profile approved the risk of the actor as
    /// it was, so the risk of this one is compared with the profile too.
    pub(super) async fn permits_changed_actor(
        &self,
        plan: &Plan,
        strategy: &StrategyRecord,
        execution: &Actor,
    ) -> Result<bool> {
        if strategy.approved_by.as_ref().is_none_or(Approver::is_user) {
            return Ok(false);
        }
        Ok(self.decide_escalation(plan, execution).await?.proceed)
    }

    /// Assesses the confidence in the plan's next phase.
    async fn assess(&self, plan: &Plan, execution: &Actor, phase: Phase) -> Result<Assessment> {
        let id = plan.identity.plan_id;
        let (steps, stated) = self
            .store
            .read(move |tx| {
                let Some(strategy) = tx.newest_strategy(id)? else {
                    // Before Strategize there is no stated confidence. The gate then depends on the
                    // estimate alone.
                    return Ok::<_, StoreError>((0, None));
                };
                let decision = tx.decision(strategy.decision_id)?;
                Ok((strategy.strategy.steps.len(), decision.confidence_score))
            })
            .await?;
        let risk = estimate_risk(execution, steps, &*self.toolbox);
        let operation = phase_operation(phase);
        let assessed = self.confidence.assess(plan, operation, risk).await?;
        // The actor's own statement can only lower the confidence. An actor must not open its own
        // gate.
        Ok(assessed.at_most(stated))
    }

    /// Decides whether the plan is applied without asking the user: because the user approved it in
    /// advance, or because the profile says so.
    pub(super) async fn decide_auto_apply(
        &self,
        plan: &Plan,
        execution: &Actor,
    ) -> Result<AutoApply> {
        if plan.approvals.apply.is_some() {
            // An explicit approval of the user wins over guards of the profile.
            return Ok(AutoApply::Yes);
        }
        let assessed = self.assess(plan, execution, Phase::Apply).await?;
        let profile = &plan.brief.automation_profile;
        let decision = assessed.gate(profile, ThresholdName::StartApply);
        Ok(if !decision.proceed {
            AutoApply::No(decision.explanation)
        // Checked last, so that the message names the confidence if that alone already stops the
        // plan.
        } else if profile.guards.require_approval_for_apply {
            AutoApply::No(format!(
                "{} requires your approval before changes are applied",
                profile.name
            ))
        } else {
            AutoApply::Yes
        })
    }
}
