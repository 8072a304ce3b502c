//! The services that execute and apply plans in the name of this process. They are built only when
//! a request needs them, because they need git and confined processes.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_engine::applying::{ApplyService, PlanApplyRequest};
use cleveragents_engine::execution::{EngineServices, ExecutionPolicy, Executor, ExecutorDeps};
use cleveragents_ports::models::{Models, NoModels};
use cleveragents_ports::processes::Processes;
use cleveragents_ports::targets::Destination;
use cleveragents_ports::tools::Toolbox;

use crate::app::Caller;
use crate::failure::RequestError;
use crate::notices::warning;
use crate::services::Services;

/// The adapters that run tools and commands of plans.
#[derive(Debug)]
pub struct EngineAdapters {
    /// All tools. They run commands with `processes`.
    pub toolbox: Arc<dyn Toolbox>,
    pub processes: Arc<dyn Processes>,
    pub policy: ExecutionPolicy,
}

/// Whether an apply waits for a lock of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetLockWait {
    Bounded,
    /// Fails at once. For recovery, which must not delay the request that the user sent.
    Never,
}

impl Services {
    /// Returns the executor, which runs plans in the name of this process.
    pub(crate) fn executor(&self, caller: &Caller) -> Result<Executor, RequestError> {
        let models = self.models()?;
        Ok(Executor::new(engine_services(self, models, caller)?))
    }

    /// Returns the service that applies plans in the name of this process.
    pub(crate) fn apply_service(&self, caller: &Caller) -> Result<ApplyService, RequestError> {
        // Apply calls no model, so wrong settings of models must not prevent it.
        let services = engine_services(self, Arc::new(NoModels), caller)?;
        let targets = self.adapters().apply_targets(TargetLockWait::Bounded)?;
        Ok(ApplyService::new(services, targets))
    }
}

pub(crate) fn apply_request(
    plan: PlanId,
    destination: Destination,
    caller: &Caller,
) -> PlanApplyRequest {
    PlanApplyRequest {
        plan,
        destination,
        author: caller.author.clone(),
        actor: caller.who.clone(),
        version: None,
        forced: None,
    }
}

/// Kills the commands of this plan that a dead process left running. A failure is only a warning,
/// because the request that the user sent does not depend on it.
pub(crate) async fn end_leftover_commands(services: &Services, plan: PlanId, caller: &Caller) {
    if let Err(failure) = try_end_leftover_commands(services, plan, caller).await {
        let text = format!("commands of the plan may still run: {}", failure.message);
        services.notices.add(warning(text, []));
    }
}

async fn try_end_leftover_commands(
    services: &Services,
    plan: PlanId,
    caller: &Caller,
) -> Result<(), RequestError> {
    let calls = services
        .store()
        .read(move |tx| tx.unfinished_tool_calls(plan));
    // Most plans have none. Then no executor is built, which would need git.
    if calls.await?.is_empty() {
        return Ok(());
    }
    let executor = Executor::new(engine_services(services, Arc::new(NoModels), caller)?);
    Ok(executor.end_orphaned_processes(plan).await?)
}

/// Returns an apply service for recovering applies of dead processes. It does not wait for
/// locks and runs no validations.
pub(crate) fn recovery_apply_service(
    services: &Services,
    caller: &Caller,
) -> Result<ApplyService, RequestError> {
    let engine = engine_services(services, Arc::new(NoModels), caller)?;
    let targets = services.adapters().apply_targets(TargetLockWait::Never)?;
    Ok(ApplyService::new(engine, targets).without_validating())
}

fn engine_services(
    services: &Services,
    models: Arc<dyn Models>,
    caller: &Caller,
) -> Result<Arc<EngineServices>, RequestError> {
    let deps = services.deps();
    let EngineAdapters {
        toolbox,
        processes,
        policy,
    } = deps.adapters.engine_adapters()?;
    Ok(EngineServices::new(ExecutorDeps {
        store: deps.store.clone(),
        ids: Arc::clone(&deps.ids),
        clock: Arc::clone(&deps.clock),
        liveness: Arc::clone(&deps.liveness),
        owner: deps.owner,
        sandboxes: deps.adapters.sandboxes()?,
        toolbox,
        processes,
        models,
        // Shared by all requests of the process (law 6): a provider that fails for one plan fails
        // for all.
        breaker: services.process_state().breaker.clone(),
        slot_queue: services.process_state().slot_queue.clone(),
        secrets: deps.adapters.secrets()?,
        // Of this caller only: cancelling one request must not stop the plans of others.
        interrupt: caller.cancel.clone(),
        progress: Arc::new(deps.progress.clone()),
        policy,
    }))
}
