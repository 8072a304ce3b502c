//! `plan.find`, and the lookup of plans and of their journals.

use cleveragents_api::plan::{PlanFind, PlanList, PlanReference, PlanSummary};
use cleveragents_api::{ExitClass, NextStep, Reply};
use cleveragents_domain::id::{ID_LENGTH, PlanId};
use cleveragents_domain::{Plan, StreamId};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::StoreError;

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::failure::RequestError;
use crate::services::Services;

impl Handler<PlanFind> for App {
    // The request that follows recovers or reports unfinished applies.
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanFind,
        _: &Caller,
    ) -> Result<Reply<PlanSummary>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        Ok(Reply::new((&plan).into()))
    }
}

/// Finds the plan that the user named.
pub(crate) async fn find_plan(
    services: &Services,
    plan: &PlanReference,
) -> Result<Plan, RequestError> {
    let found = services.lifecycle().find_plan(plan.0.clone()).await;
    found.map_err(|error| with_list_step(error.into()))
}

/// Finds the plan whose journal to read. A deleted plan keeps its journal, under its full id.
pub(crate) async fn find_journal(
    services: &Services,
    plan: &PlanReference,
) -> Result<PlanId, RequestError> {
    let error = match services.lifecycle().find_plan(plan.0.clone()).await {
        Ok(plan) => return Ok(plan.identity.plan_id),
        Err(error) => error,
    };
    let missing = matches!(error, LifecycleError::Store(StoreError::NotFound { .. }));
    let whole = plan.0.as_str().len() == ID_LENGTH;
    if missing
        && whole
        && let Ok(id) = plan.0.as_str().parse::<PlanId>()
    {
        let head = services.store().read(move |tx| tx.head(StreamId::Plan(id)));
        if head.await?.stream_seq > 0 {
            return Ok(id);
        }
    }
    Err(with_list_step(error.into()))
}

fn with_list_step(failure: RequestError) -> RequestError {
    match failure.exit {
        ExitClass::NotFound => failure.hint(NextStep::send(&PlanList::default())),
        _ => failure,
    }
}
