//! Lookup of plans and of their journals.

use cleveragents_api::plan::{PlanList, PlanReference};
use cleveragents_api::{ExitClass, NextStep};
use cleveragents_domain::id::{ID_LENGTH, PlanId};
use cleveragents_domain::{Plan, StreamId};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use crate::app::App;
use crate::failure::RequestError;

impl App {
    /// Finds the plan that the user named.
    pub async fn find_plan(&self, plan: &PlanReference) -> Result<Plan, RequestError> {
        let found = self.lifecycle().find_plan(plan.0.clone()).await;
        found.map_err(|error| with_list_step(error.into()))
    }

    /// Finds the plan whose journal to read. A deleted plan keeps its journal, under its full id.
    pub async fn find_journal(&self, plan: &PlanReference) -> Result<PlanId, RequestError> {
        let error = match self.lifecycle().find_plan(plan.0.clone()).await {
            Ok(plan) => return Ok(plan.identity.plan_id),
            Err(error) => error,
        };
        let missing = matches!(error, LifecycleError::Store(StoreError::NotFound { .. }));
        let whole = plan.0.as_str().len() == ID_LENGTH;
        if missing
            && whole
            && let Ok(id) = plan.0.as_str().parse::<PlanId>()
        {
            let head = self.store().read(move |tx| tx.head(StreamId::Plan(id)));
            if head.await?.stream_seq > 0 {
                return Ok(id);
            }
        }
        Err(with_list_step(error.into()))
    }
}

fn with_list_step(failure: RequestError) -> RequestError {
    match failure.exit {
        ExitClass::NotFound => failure.hint(NextStep::send(&PlanList::default())),
        _ => failure,
    }
}
