//! `plan.find`, `plan.find_recent`, and the lookup of plans and of their journals.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_api::plan::{PlanFind, PlanFindRecent, PlanList, PlanReference, PlanSummary};
use cleveragents_api::{ExitClass, NextStep, Reply};
use cleveragents_domain::id::{ID_LENGTH, PlanId};
use cleveragents_domain::{AbsolutePath, NamespacedName, Plan, StreamId};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::{PlanFilter, StoreError};

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::failure::{RequestError, display_path};
use crate::services::Services;

impl Handler<PlanFind> for App {
    // The request that follows recovers, aborts or reports unfinished applies.
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

impl Handler<PlanFindRecent> for App {
    // As above.
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanFindRecent,
        _: &Caller,
    ) -> Result<Reply<PlanSummary>, RequestError> {
        let number = request.number.get();
        let projects = projects_around(&self.services, &request.folder).await?;
        let mut found = Vec::new();
        if !projects.is_empty() {
            let filter = PlanFilter {
                projects,
                limit: Some(number),
                ..PlanFilter::default()
            };
            found = self.services.lifecycle().list_plans(filter).await?.plans;
        }
        match found.get(number as usize - 1) {
            Some(plan) => Ok(Reply::new(plan.into())),
            None => Err(too_few_plans(&request.folder, found.len())),
        }
    }
}

fn too_few_plans(folder: &Path, found: usize) -> RequestError {
    let folder = display_path(folder);
    let what = match found {
        0 => format!("there is no plan on {folder}"),
        1 => format!("there is only 1 plan on {folder}"),
        _ => format!("there are only {found} plans on {folder}"),
    };
    RequestError::new(ExitClass::NotFound, what).hint(NextStep::send(&PlanList::default()))
}

/// Returns the projects with a resource at this folder, or else at the nearest one around it.
pub(super) async fn projects_around(
    services: &Services,
    folder: &Path,
) -> Result<Vec<NamespacedName>, RequestError> {
    match AbsolutePath::from_bytes(folder.as_os_str().as_bytes()) {
        Ok(path) => Ok(services.projects().projects_around(path).await?),
        // A resource has an absolute path, so there is none here.
        Err(_) => Ok(Vec::new()),
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
