//! `plan.errors`

use cleveragents_api::plan::PlanErrors;
use cleveragents_api::plan::errors::{ErrorCounts, ErrorHint, PlanError, PlanErrorsAnswer};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::ErrorRecord;
use cleveragents_domain::apply_record::Destination;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::error_recovery_steps::recovery_steps;
use crate::plan::find::find_plan;
use crate::text::format_length;

impl Handler<PlanErrors> for App {
    async fn handle(
        &self,
        request: PlanErrors,
        _: &Caller,
    ) -> Result<Reply<PlanErrorsAnswer>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let history = self.services.error_history().history(id).await?;
        let said = match history.len() {
            0 => "no errors".to_owned(),
            number => format!("{} listed", format_length(number, "error")),
        };
        let newest = history.iter().max_by_key(|error| error.at);
        let newest = newest.filter(|_| !plan.position.is_terminal());
        let text = |step: &NextStep| self.services.adapters().next_step_text(step);
        let steps = newest.map_or(Vec::new(), |it| {
            recovery_steps(it, plan.destination.as_ref())
        });
        let reply = Reply::new(PlanErrorsAnswer {
            plan_id: id,
            name: plan.name.clone(),
            phase: plan.position.phase(),
            state: plan.position.state(),
            summary: ErrorCounts {
                total: history.len(),
                occurrences: history.iter().map(|error| error.occurrences).sum(),
            },
            errors: history
                .into_iter()
                .map(|error| plan_error(error, plan.destination.as_ref(), text))
                .collect(),
        });
        let steps = steps.into_iter().map(|it| it.step);
        Ok(steps.fold(reply.info(said), Reply::hint))
    }
}

/// Returns a recorded error of a plan with this destination and the steps that can help, which `text` writes in the form of the
/// front end.
pub fn plan_error(
    error: ErrorRecord,
    destination: Option<&Destination>,
    text: impl Fn(&NextStep) -> String,
) -> PlanError {
    let hints = recovery_steps(&error, destination)
        .into_iter()
        .map(|it| ErrorHint {
            action: it.action,
            message: it.message,
            cli_command: text(&it.step),
        });
    PlanError {
        recovery_hints: hints.collect(),
        id: error.id,
        sequence: error.sequence,
        category: error.category,
        message: error.message,
        phase: error.phase,
        step: error.step,
        attempt: error.attempt,
        cause_chain: error.cause_chain,
        recovery: error.recovery,
        occurrences: error.occurrences,
        at: error.at,
    }
}
