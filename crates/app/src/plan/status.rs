//! `plan.status`

use cleveragents_api::plan::status::{
    PhaseProgress, PhaseStatus, PlanExecution, PlanStatusAnswer, PlanStop, PlanTiming,
};
use cleveragents_api::plan::{PlanOwner, PlanSandbox, PlanStatus, PlanSummary};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::approval::PendingApprovals;
use cleveragents_domain::{ErrorRecord, Phase, Plan, PlanState, PlanTimestamps, Timestamp};
use cleveragents_ports::StoreError;

use super::{PlanWork, continue_command, describe_waiting, elapsed};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::cancel_step;
use crate::plan::error_recovery_steps::{needs_change, recovery_steps};
use crate::plan::find::find_plan;
use crate::plan::next_commands::plan_next_steps;
use crate::plan::owner::plan_owner;
use crate::plan::start_over::start_over_step;
use crate::plan::work::plan_work;
use crate::services::Services;
use crate::text::format_duration;

/// A plan with related records.
struct FoundPlan {
    plan: Plan,
    owner: Option<PlanOwner>,
    newest_error: Option<ErrorRecord>,
    work: PlanWork,
}

impl Handler<PlanStatus> for App {
    async fn handle(
        &self,
        request: PlanStatus,
        _: &Caller,
    ) -> Result<Reply<PlanStatusAnswer>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let found = FoundPlan {
            newest_error: newest_error(&self.services, &plan).await?,
            work: plan_work(&self.services, &plan).await?,
            owner: plan_owner(&self.services, id).await?,
            plan,
        };
        let mut steps = found.next_steps();
        if found.plan.position.state() == PlanState::Cancelled {
            steps.insert(0, start_over_step(&self.services, &found.plan).await?);
        }
        let reply = Reply::new(found.into_answer(self.services.deps().clock.now()));
        Ok(steps.into_iter().fold(reply, Reply::hint))
    }
}

/// Returns the error at which the plan stopped.
pub(crate) async fn newest_error(
    services: &Services,
    plan: &Plan,
) -> Result<Option<ErrorRecord>, StoreError> {
    if !matches!(
        plan.position.state(),
        PlanState::Errored | PlanState::Constrained
    ) {
        return Ok(None);
    }
    let history = services
        .error_history()
        .history(plan.identity.plan_id)
        .await?;
    // An error of an earlier phase was overcome, and its steps lead back there.
    let phase = plan.position.phase();
    let errors = history.into_iter().filter(|error| error.phase == phase);
    Ok(errors.max_by_key(|error| error.at))
}

impl FoundPlan {
    /// Returns whether the plan was started but no process runs it.
    fn is_abandoned(&self) -> bool {
        self.owner.is_none() && self.plan.position.state() == PlanState::Processing
    }

    fn next_steps(&self) -> Vec<NextStep> {
        let id = self.plan.identity.plan_id;
        if let Some(owner) = &self.owner {
            return match continue_command(owner) {
                Some(command) => vec![NextStep::from(command)],
                None => vec![NextStep::Watch { plan: id }, cancel_step(id)],
            };
        }
        let at = self.plan.position;
        let to = self.plan.destination.as_ref();
        let error = self.newest_error.as_ref();
        let steps = error.map_or(Vec::new(), |it| recovery_steps(it, to));
        let mut steps: Vec<NextStep> = steps.into_iter().map(|it| it.step).collect();
        let is_approved = self.plan.approvals != PendingApprovals::default();
        // The record of an error knows neither what was approved nor where an apply stopped: a later
        // apply may have stopped without an error.
        let is_first = match at.phase() {
            Phase::Apply => true,
            _ => is_approved && !error.is_some_and(needs_change),
        };
        if steps.is_empty() || is_first {
            steps.splice(0..0, plan_next_steps(&self.plan));
        }
        let mut seen = Vec::new();
        steps.retain(|step| {
            let is_new = !seen.contains(step);
            seen.push(step.clone());
            is_new
        });
        steps
    }

    fn progress(&self, phase: Phase) -> PhaseStatus {
        let at = self.plan.position;
        if at.has_passed(phase) {
            return PhaseStatus::Done;
        }
        if at.phase() != phase {
            return PhaseStatus::Queued;
        }
        match at.state() {
            PlanState::Processing if self.is_abandoned() => PhaseStatus::Stopped,
            PlanState::Processing => PhaseStatus::Running,
            PlanState::Errored
            | PlanState::Cancelled
            | PlanState::Constrained
            | PlanState::Unapplied => PhaseStatus::Stopped,
            PlanState::Queued | PlanState::Complete | PlanState::Applied => PhaseStatus::Queued,
        }
    }

    fn into_answer(self, now: Timestamp) -> PlanStatusAnswer {
        let progress = |phase: &Phase| PhaseProgress {
            step: *phase,
            status: self.progress(*phase),
        };
        let plan = &self.plan;
        PlanStatusAnswer {
            plan: PlanSummary::from(plan),
            description: plan.brief.description.clone(),
            automation: plan.brief.automation_profile.name.clone(),
            reversions: plan.position.reversions(),
            waiting_text: plan.position.waiting().map(describe_waiting),
            progress: Phase::ALL.iter().map(progress).collect(),
            timing: timing(plan, now),
            execution: execution(&self.work),
            cost: self.work.cost,
            error: stop(plan, self.newest_error.as_ref(), &self.work),
            owner: self.owner,
        }
    }
}

fn timing(plan: &Plan, now: Timestamp) -> PlanTiming {
    let times = &plan.timestamps;
    PlanTiming {
        started: started(times),
        elapsed: format_duration(elapsed(plan, now)),
        eta: None,
        created_at: times.created_at,
        updated_at: times.updated_at,
        finished_at: times.finished_at,
    }
}

fn started(times: &PlanTimestamps) -> Option<Timestamp> {
    let starts = [
        times.strategize_started_at,
        times.execute_started_at,
        times.apply_started_at,
    ];
    starts.into_iter().flatten().min()
}

fn execution(work: &PlanWork) -> PlanExecution {
    let children = work.child_plans;
    PlanExecution {
        sandbox: work.sandboxes.first().map(|it| it.state),
        sandboxes: work.sandboxes.iter().map(PlanSandbox::from).collect(),
        tool_calls: work.tool_calls,
        files_modified: work.paths,
        child_plans: format!("{}/{} complete", children.complete, children.total),
        checkpoints: work.checkpoints,
        last_checkpoint: work.last_checkpoint,
    }
}

fn stop(plan: &Plan, newest: Option<&ErrorRecord>, work: &PlanWork) -> Option<PlanStop> {
    Some(PlanStop {
        message: plan.error_message.clone()?,
        tool: None,
        step: newest.and_then(|error| error.step),
        checkpoint: work.last_checkpoint,
        recoverable: !plan.position.is_terminal(),
        category: newest.map(|error| error.category),
        recovery: newest.map(|error| error.recovery),
    })
}
