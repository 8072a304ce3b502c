//! `plan.explain`

use cleveragents_api::Reply;
use cleveragents_api::plan::PlanExplain;
use cleveragents_api::plan::explain::{
    Alternative, ContextPart, ContextState, CorrectionImpact, DecisionContext, DecisionImpact,
    ExplainedDecision,
};
use cleveragents_domain::Decision;
use cleveragents_engine::decisions::{DecisionExplanation, Impact, ImpactLevel, StoredContext};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::correct_step;
use crate::services::Services;

impl Handler<PlanExplain> for App {
    async fn handle(
        &self,
        request: PlanExplain,
        _: &Caller,
    ) -> Result<Reply<ExplainedDecision>, RequestError> {
        let fragment = request.decision.0.clone();
        let explained = self.services.decisions().explain(fragment).await?;
        let warnings = warnings(&request, &explained);
        let reply = Reply::new(answer(&self.services, &request, explained));
        Ok(warnings.into_iter().fold(reply, Reply::warn))
    }
}

fn warnings(request: &PlanExplain, explained: &DecisionExplanation) -> Vec<&'static str> {
    let mut warnings = Vec::new();
    match (&explained.context, request.show_context) {
        (StoredContext::Released, _) => {
            warnings.push("the context was stored but is no longer kept");
        }
        (StoredContext::None, true) => warnings.push("no context was stored with this decision"),
        _ => {}
    }
    if request.show_reasoning && explained.decision.actor_reasoning.is_none() {
        warnings.push("no model reasoning was stored");
    }
    warnings
}

fn answer(
    services: &Services,
    request: &PlanExplain,
    explained: DecisionExplanation,
) -> ExplainedDecision {
    let decision = &explained.decision;
    let path = &explained.path_to_root;
    let context_snapshot = context_snapshot(decision, &explained.context);
    let (context, context_items) = if request.show_context {
        let (text, items) = stored_text(explained.context);
        (Some(text), items)
    } else {
        (None, Vec::new())
    };
    ExplainedDecision {
        decision_id: decision.decision_id,
        decision_type: decision.decision_type,
        question: decision.question.clone(),
        chosen: decision.chosen_option.clone(),
        confidence: decision.confidence_score,
        plan_id: decision.plan_id,
        plan_name: explained.plan.name.clone(),
        phase: decision.phase,
        sequence: format!("{} of {}", decision.sequence_number, explained.decisions),
        created: decision.created_at,
        superseded: decision.is_superseded,
        correction: decision.is_correction,
        path: path.iter().map(|it| it.decision_id).collect(),
        path_choices: path.iter().map(|it| it.chosen_option.clone()).collect(),
        alternatives: alternatives(decision),
        impact: impact(&explained.impact),
        context_snapshot,
        rationale: decision.rationale.clone(),
        correction_hint: correction_hint(services, decision),
        reasoning: request
            .show_reasoning
            .then(|| decision.actor_reasoning.clone()),
        context,
        context_items,
    }
}

fn stored_text(context: StoredContext) -> (Option<String>, Vec<ContextPart>) {
    let StoredContext::Kept { text, items } = context else {
        return (None, Vec::new());
    };
    let items = items.into_iter().map(|item| ContextPart {
        name: item.name,
        text: item.text,
    });
    (Some(text), items.collect())
}

/// Returns all options, including the chosen one: at its position in the actor's list, else first.
fn alternatives(decision: &Decision) -> Vec<Alternative> {
    let chosen = decision.chosen_option.as_str();
    let others = decision.alternatives_considered.iter().map(String::as_str);
    let missing = !others.clone().any(|other| other == chosen);
    let first = missing.then_some(chosen).into_iter();
    first
        .chain(others)
        .enumerate()
        .map(|(number, description)| Alternative {
            index: number + 1,
            description: description.to_owned(),
            chosen: description == chosen,
        })
        .collect()
}

fn impact(impact: &Impact) -> DecisionImpact {
    DecisionImpact {
        downstream_decisions: impact.downstream.len(),
        downstream_child_plans: impact.child_plans.len(),
        artifacts_produced: impact.artifacts.len(),
        correction_impact: correction_impact(impact.level()),
    }
}

pub(super) fn correction_impact(level: ImpactLevel) -> CorrectionImpact {
    match level {
        ImpactLevel::Low => CorrectionImpact::Low,
        ImpactLevel::Medium => CorrectionImpact::Medium,
        ImpactLevel::High => CorrectionImpact::High,
    }
}

fn context_snapshot(decision: &Decision, context: &StoredContext) -> DecisionContext {
    let snapshot = &decision.context_snapshot;
    let named = |hash: &String| format!("blake3:{hash}");
    let (state, items, bytes) = match context {
        StoredContext::None => (ContextState::None, Vec::new(), None),
        StoredContext::Released => (ContextState::Released, Vec::new(), None),
        StoredContext::Kept { text, items } => {
            let names = items.iter().map(|item| item.name.clone());
            (ContextState::Kept, names.collect(), Some(text.len()))
        }
    };
    DecisionContext {
        items,
        hot_context_hash: (!snapshot.hash.is_empty()).then(|| named(&snapshot.hash)),
        resources: snapshot.resources.clone(),
        actor_state_hash: snapshot.actor_state_ref.as_ref().map(named),
        state,
        bytes,
    }
}

/// Returns the step that corrects this decision, or why it cannot be corrected.
fn correction_hint(services: &Services, decision: &Decision) -> String {
    if decision.is_superseded {
        "a decision that was superseded cannot be corrected".to_owned()
    } else {
        let step = correct_step(&decision.decision_id.to_string());
        services.adapters().next_step_text(&step)
    }
}
