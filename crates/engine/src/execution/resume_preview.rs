//! What going on with a plan would do, told without doing it.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::model_call::ModelCallRecord;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{Phase, Plan, PlanState};
use serde::Serialize;

use super::error::Result;
use super::executor::Executor;
use super::steps::is_confirmed;
use crate::ports::{Holder, StoreError};

/// Where a plan stands and what comes next.
#[derive(Debug, Clone, Serialize)]
pub struct ResumePreview {
    #[serde(skip)]
    pub plan: Plan,
    pub next: NextMove,
    /// Who works on it, if somebody does.
    #[serde(skip)]
    pub holder: Option<Holder>,
    /// The step of the strategy that is carried out next, and how many there are.
    pub step: Option<u32>,
    pub steps: usize,
    /// Calls of tools that stand and are not made again.
    pub confirmed_calls: usize,
    /// Calls that were begun and not ended: their effects are taken back, and they are made again.
    pub interrupted_calls: Vec<String>,
    /// Answers of models that are not asked for again.
    pub stored_answers: usize,
    /// Models that were asked by an owner that died; they are asked again.
    pub interrupted_models: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextMove {
    Strategize,
    /// A human's word for the strategy, unless the profile goes on alone.
    Approve,
    Execute,
    /// A human's word, or the profile's.
    Apply,
    Nothing,
}

/// How many records are read at a time.
const PAGE: u32 = 500;

impl Executor {
    /// What [`Executor::resume`] would go on with.
    pub async fn preview_resume(&self, plan: PlanId) -> Result<ResumePreview> {
        let calls = self.tool_calls(plan).await?;
        let (plan, holder, strategy, model_calls, unfinished) = self
            .store
            .read(move |tx| {
                let mut model_calls: Vec<ModelCallRecord> = Vec::new();
                loop {
                    let after = model_calls.last().map_or(0, |it| it.number);
                    let page = tx.model_calls_after(plan, after, PAGE)?;
                    if page.is_empty() {
                        break;
                    }
                    model_calls.extend(page);
                }
                Ok::<_, StoreError>((
                    tx.plan(plan)?,
                    tx.run_of(plan)?,
                    tx.newest_strategy(plan)?,
                    model_calls,
                    tx.unfinished_model_calls(plan)?.len(),
                ))
            })
            .await?;
        let answered = model_calls
            .iter()
            .filter(|it| it.answer.is_some() && it.undone_by.is_none());
        let is_unfinished = |it: &&ToolCallRecord| it.finished_at.is_none();
        let steps = strategy.as_ref().map_or(0, |it| it.strategy.steps.len());
        let next = next_move(&plan);
        Ok(ResumePreview {
            step: (next == NextMove::Execute).then(|| plan.last_completed_step.unwrap_or(0) + 1),
            steps,
            next,
            holder,
            confirmed_calls: calls
                .iter()
                .filter(|it| it.undone_by.is_none() && is_confirmed(it))
                .count(),
            interrupted_calls: calls
                .iter()
                .filter(is_unfinished)
                .map(|it| it.call.tool.to_string())
                .collect(),
            stored_answers: answered.count(),
            interrupted_models: unfinished,
            plan,
        })
    }
}

fn next_move(plan: &Plan) -> NextMove {
    let at = plan.position;
    match (at.phase(), at.state()) {
        _ if at.is_terminal() => NextMove::Nothing,
        (Phase::Strategize, PlanState::Complete) => NextMove::Approve,
        (Phase::Strategize, _) => NextMove::Strategize,
        (Phase::Execute, PlanState::Complete) | (Phase::Apply, _) => NextMove::Apply,
        (Phase::Execute, _) => NextMove::Execute,
    }
}
