//! Decides whether a plan's profile lets it continue without the user's approval.

use cleveragents_domain::actor::Actor;
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
        Ok(assessed.gate(profile, ThresholdName::CreateTool))
    }

    /// Decides the same for a plan that this process does not own.
    pub(super) async fn decide_unclaimed_escalation(
        &self,
        plan: &Plan,
    ) -> Result<EscalationDecision> {
        let actors = PlanActors::load(self, plan).await?;
        let execution = actors.get(&plan.brief.actors.execution_actor)?;
        self.decide_escalation(plan, execution).await
    }

    /// Assesses the confidence in the plan's next phase.
    async fn assess(&self, plan: &Plan, execution: &Actor, phase: Phase) -> Result<Assessment> {
        let id = plan.identity.plan_id;
        let (steps, stated) = self
            .store
            .read(move |tx| {
                let Some(strategy) = tx.newest_strategy(id)? else {
                    return Ok::<_, StoreError>((0, None));
                };
                let decision = tx.decision(strategy.decision_id)?;
                Ok((strategy.strategy.steps.len(), decision.confidence_score))
            })
            .await?;
        let risk = estimate_risk(execution, steps, &*self.toolbox);
        let operation = phase_operation(phase);
        let assessed = self.confidence.assess(plan, operation, risk).await?;
        Ok(assessed.at_most(stated))
    }

    /// Decides whether the profile applies the plan without the user.
    pub(super) async fn decide_auto_apply(
        &self,
        plan: &Plan,
        execution: &Actor,
    ) -> Result<AutoApply> {
        let assessed = self.assess(plan, execution, Phase::Apply).await?;
        let profile = &plan.brief.automation_profile;
        let decision = assessed.gate(profile, ThresholdName::SelectTool);
        Ok(if !decision.proceed {
            AutoApply::No(decision.explanation)
        } else if profile.guards.require_approval_for_apply {
            AutoApply::No(format!(
                "Waiting for your approval. {} requires it before changes are applied",
                profile.name
            ))
        } else {
            AutoApply::Yes
        })
    }
}
