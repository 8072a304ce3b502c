//! `plan.errors`

use cleveragents_api::plan::PlanErrors;
use cleveragents_api::plan::errors::{ErrorCounts, PlanError, PlanErrorsAnswer};
use cleveragents_api::{NextStep, Reply};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::text::format_length;

impl Handler<PlanErrors> for App {
    async fn handle(
        &self,
        request: PlanErrors,
        _: &Caller,
    ) -> Result<Reply<PlanErrorsAnswer>, RequestError> {
        let plan = self.find_plan(&request.plan).await?;
        let id = plan.identity.plan_id;
        let history = self.recovery().history(id).await?;
        let said = match history.len() {
            0 => "no errors".to_owned(),
            number => format!("{} listed", format_length(number, "error")),
        };
        let newest = history.iter().max_by_key(|error| error.at);
        let newest = newest.filter(|_| !plan.position.is_terminal());
        let hints = newest.map_or(Vec::new(), |error| error.hints.clone());
        let reply = Reply::new(PlanErrorsAnswer {
            plan_id: id,
            name: plan.name,
            phase: plan.position.phase(),
            state: plan.position.state(),
            summary: ErrorCounts {
                total: history.len(),
                occurrences: history.iter().map(|error| error.occurrences).sum(),
            },
            errors: history.into_iter().map(PlanError::from).collect(),
        });
        let steps = hints.into_iter().map(|hint| NextStep::from(hint.command));
        Ok(steps.fold(reply.info(said), Reply::hint))
    }
}
