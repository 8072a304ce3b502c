//! The first fields of every answer about a plan.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState, WaitReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plan and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanSummary {
    pub plan_id: PlanId,
    pub name: NamespacedName,
    pub phase: Phase,
    pub state: PlanState,
    pub waiting: Option<WaitReason>,
    pub action: NamespacedName,
    /// The names of the projects, separated by commas.
    pub project: String,
    pub projects: Vec<NamespacedName>,
    pub attempt: u32,
}

impl From<&Plan> for PlanSummary {
    fn from(plan: &Plan) -> Self {
        let position = plan.position;
        Self {
            plan_id: plan.identity.plan_id,
            name: plan.name.clone(),
            phase: position.phase(),
            state: position.state(),
            waiting: position.waiting(),
            action: plan.brief.action_name.clone(),
            project: project_names(plan),
            projects: plan.brief.projects.clone(),
            attempt: plan.attempt,
        }
    }
}

/// Returns for example `local/shop, local/docs`.
pub fn project_names(plan: &Plan) -> String {
    let names = plan.brief.projects.iter().map(NamespacedName::to_string);
    names.collect::<Vec<String>>().join(", ")
}
