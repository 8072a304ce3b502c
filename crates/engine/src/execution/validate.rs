//! The end of Execute: validates the captured result and lets the actor repair failures.
//!
//! Apply reads the stored summary; it validates again only a merge with a target that has moved.

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{Plan, ValidationSummary};

use super::call_index::{CallEntry, load_calls};
use super::error::Result;
use super::execute_phase::PhaseContext;
use super::llm_actor::LlmWork;
use super::plan_run::PlanRun;
use super::refused_changes::{list_refusals, listed_refusals, only_refusals_fail};
use super::steps::{ActorEnd, StepWork};
use super::validator::Validator;
use cleveragents_ports::{StoreError, StoreHandle};

/// First turn number of a repair attempt; larger than any turn of the actor's own steps.
const FIX_TURNS: u32 = 1_000_000;

/// The validations at the end of the Execute phase.
pub(super) struct ValidatePhase<'a> {
    pub(super) run: &'a PlanRun,
    pub(super) context: &'a PhaseContext,
    pub(super) strategy: &'a StrategyRecord,
    /// The execution actor that was checked at the start of the phase.
    pub(super) actor: &'a Actor,
}

pub(super) enum ValidateOutcome {
    Completed(ValidationSummary),
    /// A repair attempt ended the work.
    Ended(ActorEnd),
}

enum FixOutcome {
    Attempted,
    NotPossible,
    Ended(ActorEnd),
}

impl ValidatePhase<'_> {
    /// Runs the gates, again after each repair attempt, and stores the summary of each round.
    pub(super) async fn run(&self) -> Result<ValidateOutcome> {
        let (run, workspace) = (self.run, &self.context.workspace);
        let limits = &run.plan.brief.automation_profile.limits;
        let limit = limits.validation_retry_limit;
        // Read from the store: rounds of a dead owner count too.
        let first = first_round(&run.services.store, &run.plan).await?;
        let listed = listed_refusals(&run.services.store, &run.plan).await?;
        let validator = Validator {
            services: &run.services,
            plan: &run.plan,
        };
        let mut round = first;
        loop {
            let validation = validator.validate_round(workspace, round, &run.stop);
            let summary = match validation.await? {
                Ok(summary) => summary,
                Err(why) => return Ok(ValidateOutcome::Ended(ActorEnd::Stopped(why))),
            };
            let refused = list_refusals(run, workspace, round, &listed).await?;
            let results = summary.results.into_iter().chain(refused);
            let summary = ValidationSummary::new(results.collect());
            // Stored before a repair, so that a crash leaves the summary of this result.
            run.store_summary(round, &summary).await?;
            // The user must decide about refused changes; a repair attempt cannot record them.
            if only_refusals_fail(&summary) || round >= first.saturating_add(limit) {
                return Ok(ValidateOutcome::Completed(summary));
            }
            match self.try_fix(round, &summary).await? {
                FixOutcome::Attempted => round += 1,
                FixOutcome::NotPossible => return Ok(ValidateOutcome::Completed(summary)),
                FixOutcome::Ended(end) => return Ok(ValidateOutcome::Ended(end)),
            }
        }
    }

    /// Lets the execution actor repair the failures, if it has `fix` steps or a model.
    async fn try_fix(&self, round: u32, found: &ValidationSummary) -> Result<FixOutcome> {
        let (run, actor) = (self.run, self.actor);
        let uses_model = matches!(actor.kind, ActorKind::Llm(_));
        if actor.fix().is_empty() && !uses_model {
            return Ok(FixOutcome::NotPossible);
        }
        // A repair is recorded under the last step. Its turn numbers come after all turns of that
        // step.
        let step = run.plan.last_completed_step.unwrap_or(1);
        let mut work = StepWork::begin(run, self.context, &self.context.runner, step).await?;
        let valid = run.calls.select(CallEntry::is_valid);
        work.restore_stamps(&load_calls(&run.services.store, &valid).await?);
        let first = FIX_TURNS.saturating_mul(round);
        let end = match &actor.kind {
            ActorKind::Llm(llm) => {
                work.first_turn = first;
                let llm_work = LlmWork {
                    run,
                    actor: &actor.name,
                    llm,
                    work: &work,
                };
                llm_work.repair(self.strategy, round, found).await?
            }
            _ => work.run_steps(&actor.name, actor.fix(), first).await?,
        };
        work.close().await?;
        Ok(match end {
            // A failed attempt still counts; the next round shows whether it helped. If the model
            // was unavailable, no attempt was made.
            ActorEnd::Done | ActorEnd::Failed(_) => FixOutcome::Attempted,
            end => FixOutcome::Ended(end),
        })
    }
}

/// Returns the number of the first round for this request. It comes after all rounds that an
/// earlier request used up, so that new repair attempts are not mistaken for earlier ones.
/// Rounds that a dead owner did not finish are repeated.
pub(super) async fn first_round(store: &StoreHandle, plan: &Plan) -> Result<u32> {
    let limit = plan.brief.automation_profile.limits.validation_retry_limit;
    let Some(summary) = newest_summary(store, plan).await? else {
        return Ok(1);
    };
    let last = summary.results.iter().map(|it| it.attempt).max();
    let rounds_per_request = limit.saturating_add(1);
    Ok(last.unwrap_or(0) / rounds_per_request * rounds_per_request + 1)
}

/// Returns the newest stored validation summary of the plan's attempt.
pub(crate) async fn newest_summary(
    store: &StoreHandle,
    plan: &Plan,
) -> std::result::Result<Option<ValidationSummary>, StoreError> {
    let (id, attempt) = (plan.identity.plan_id, plan.attempt);
    let read = store.read(move |tx| tx.newest_validation_run(id, attempt));
    read.await
}
