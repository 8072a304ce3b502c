//! Previews what resuming a plan would do, without doing it.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::model_call::ModelCallRecord;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{Phase, Plan, PlanState, PointOfNoReturn};
use serde::Serialize;

use super::error::Result;
use super::executor::Executor;
use super::steps::is_confirmed;
use cleveragents_ports::{Holder, StoreError};

/// The position of a plan and its next move.
#[derive(Debug, Clone, Serialize)]
pub struct ResumePreview {
    #[serde(skip)]
    pub plan: Plan,
    pub next: NextMove,
    /// The live owner, if there is one.
    #[serde(skip)]
    pub holder: Option<Holder>,
    /// The next step of the strategy. `steps` is the total.
    pub step: Option<u32>,
    pub steps: usize,
    /// Confirmed tool calls, which are not made again.
    pub confirmed_calls: usize,
    /// Calls that started and did not end. Their changes are undone and they are made again.
    pub interrupted_calls: Vec<String>,
    /// Stored model answers, which are not requested again.
    pub stored_answers: usize,
    /// Model calls interrupted by the death of an owner. They are made again.
    pub interrupted_models: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextMove {
    Strategize,
    /// The user approves the strategy, unless the profile allows it.
    Approve,
    Execute,
    /// The user applies the plan, unless the profile does.
    Apply,
    /// The plan is applied: the user has approved it, or its apply has begun.
    ApplyApproved,
    Nothing,
}

/// Number of records read per page.
const PAGE: u32 = 500;

impl Executor {
    /// Returns what a resume of the plan would do.
    pub async fn preview_resume(&self, plan: PlanId) -> Result<ResumePreview> {
        let calls = self.services.tool_calls(plan).await?;
        let (plan, holder, strategy, model_calls, unfinished) = self
            .services
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
    let approvals = &plan.approvals;
    let is_decided = at.point_of_no_return() == PointOfNoReturn::Passed;
    match (at.phase(), at.state()) {
        _ if at.is_terminal() => NextMove::Nothing,
        (Phase::Strategize, PlanState::Complete) if approvals.strategy.is_some() => {
            NextMove::Execute
        }
        (Phase::Execute, PlanState::Complete) | (Phase::Apply, _)
            if is_decided || approvals.apply.is_some() =>
        {
            NextMove::ApplyApproved
        }
        (Phase::Strategize, PlanState::Complete) => NextMove::Approve,
        (Phase::Strategize, _) => NextMove::Strategize,
        (Phase::Execute, PlanState::Complete) | (Phase::Apply, _) => NextMove::Apply,
        (Phase::Execute, _) => NextMove::Execute,
    }
}
