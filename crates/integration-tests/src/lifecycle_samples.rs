//! Sample values around plans with every field set, as in [`samples`](crate::samples).

#![expect(
    clippy::expect_used,
    reason = "a sample that is not legal must fail the test"
)]

use cleveragents_domain::id::{
    CorrectionId, DecisionId, ErrorId, InvariantId, MessageId, PlanId, ProjectId, ResourceId,
};
use cleveragents_domain::{
    AbsolutePath, Action, ActionState, AutomationProfile, BuiltInProfile, Confidence,
    ContextSnapshot, Correction, CorrectionMode, CorrectionState, Decision, DecisionType,
    ErrorCategory, ErrorRecord, Invariant, InvariantScope, MessageKind, NewError, Phase, Plan,
    PlanMessage, ProfileName, Project, Resource, ResourceType,
};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, StoreHandle};

use crate::samples::{action, at, name, plan, plan_id};
use crate::store_access::write;

/// A text that is hard to store.
const ODD: &str = "kein \0 Netz \u{fdd0}0 – \"so\"\n";

/// Stores a plan of the sample action and returns its id.
pub async fn store_sample_plan(store: &StoreHandle) -> PlanId {
    let id = plan_id();
    store_plan(store, plan(id, 0)).await;
    id
}

pub async fn store_plan(store: &StoreHandle, plan: Plan) {
    write(store, move |tx| tx.insert_plan(&plan)).await;
}

/// An action that can be used repeatedly, or only once.
pub fn usable_action(text: &str, reusable: bool) -> Action {
    Action {
        state: ActionState::Available,
        reusable,
        ..action(text, 0)
    }
}

/// A project named `text`, created at [`at`]`(seconds)`.
pub fn project(text: &str, seconds: i64) -> Project {
    Project {
        id: ProjectId::new(SystemIds.next()),
        name: name(text),
        description: Some(ODD.to_owned()),
        automation_profile: Some(ProfileName::BuiltIn(BuiltInProfile::Cautious)),
        created_at: at(seconds),
        updated_at: at(seconds + 1),
        version: 1,
    }
}

/// A resource named `text` at `path`.
///
/// # Panics
///
/// If the path is not legal.
pub fn resource(text: &str, path: &[u8], seconds: i64) -> Resource {
    Resource {
        id: ResourceId::new(SystemIds.next()),
        name: name(text),
        resource_type: ResourceType::FsDirectory,
        path: AbsolutePath::from_bytes(path).expect("a legal path"),
        created_at: at(seconds),
        version: 1,
    }
}

/// The root of a plan's decisions.
pub fn root_decision(plan_id: PlanId) -> Decision {
    Decision {
        decision_id: DecisionId::new(SystemIds.next()),
        plan_id,
        parent_decision_id: None,
        decision_type: DecisionType::PromptDefinition,
        phase: Phase::Execute,
        sequence_number: 0,
        question: "What is the plan prompt?".to_owned(),
        chosen_option: ODD.to_owned(),
        alternatives_considered: vec!["nothing".to_owned()],
        confidence_score: Some(Confidence::ONE),
        rationale: "asked".to_owned(),
        actor_reasoning: Some("so".to_owned()),
        context_snapshot: ContextSnapshot {
            hash: "7d86".to_owned(),
            context_ref: Some("af13".to_owned()),
            resources: vec!["src/cart.rs".to_owned()],
            actor_state_ref: Some("9c1f".to_owned()),
        },
        is_correction: true,
        is_superseded: false,
        downstream_decision_ids: vec![DecisionId::new(SystemIds.next())],
        downstream_plan_ids: vec![plan_id],
        artifacts_produced: vec!["src/%FF".parse().expect("a legal path")],
        created_at: at(1),
    }
}

pub fn child_decision(parent: &Decision) -> Decision {
    Decision {
        decision_id: DecisionId::new(SystemIds.next()),
        parent_decision_id: Some(parent.decision_id),
        decision_type: DecisionType::StrategyChoice,
        ..parent.clone()
    }
}

/// A correction of `decision` that has not started.
pub fn correction(decision: &Decision, seconds: i64) -> Correction {
    Correction {
        id: CorrectionId::new(SystemIds.next()),
        plan_id: decision.plan_id,
        original_decision_id: decision.decision_id,
        new_decision_id: Some(DecisionId::new(SystemIds.next())),
        mode: CorrectionMode::Append,
        guidance: ODD.to_owned(),
        affected: vec![decision.decision_id],
        state: CorrectionState::Pending,
        created_at: at(seconds),
        completed_at: Some(at(seconds + 1)),
        version: 1,
    }
}

/// A rule.
pub fn invariant(text: &str, scope: InvariantScope, seconds: i64) -> Invariant {
    Invariant {
        id: InvariantId::new(SystemIds.next()),
        text: text.to_owned(),
        non_overridable: scope == InvariantScope::Global,
        scope,
        created_at: at(seconds),
    }
}

/// A custom profile.
pub fn profile(text: &str) -> AutomationProfile {
    AutomationProfile {
        name: ProfileName::Custom(name(text)),
        description: ODD.to_owned(),
        ..BuiltInProfile::Cautious.profile()
    }
}

/// An error of a plan, to be recorded.
pub fn error(plan_id: PlanId, message: &str, attempt: u32) -> ErrorRecord {
    let new = NewError {
        plan_id,
        category: ErrorCategory::Timeout,
        message: message.to_owned(),
        phase: Phase::Execute,
        step: Some(2),
        attempt,
        cause_chain: vec![ODD.to_owned()],
    };
    let id = ErrorId::new(SystemIds.next());
    ErrorRecord::new(new, id, at(i64::from(attempt)))
}

/// A message to a plan's owner.
pub fn message(plan_id: PlanId, body: &str) -> PlanMessage {
    PlanMessage {
        id: MessageId::new(SystemIds.next()),
        plan_id,
        sequence: 0,
        kind: MessageKind::Prompt,
        body: body.to_owned(),
        actor: "eva".to_owned(),
        at: at(1),
        taken_at: None,
    }
}
