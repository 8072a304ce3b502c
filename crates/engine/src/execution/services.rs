//! The services that working on plans needs, built once and shared by everything that does.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::{Actor, BuiltInActor, model_actors};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::process::Network;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{NamespacedName, Plan, ResourceType};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::blocking::run_until_stopped;
use super::checkpoints::CheckpointPolicy;
use super::error::{ExecutionError, LocalOperation, Result};
use super::slot::SlotQueue;
use super::workspace::require_local_sandboxes;
use crate::breaker::CircuitBreaker;
use crate::confidence::ConfidenceService;
use crate::decisions::DecisionService;
use crate::lifecycle::PlanLifecycle;
use crate::retry::RetryPolicy;
use crate::runs::RunService;
use crate::secrets::Secrets;
use cleveragents_ports::models::Models;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::progress::ProgressSink;
use cleveragents_ports::sandbox::{CommitMetadata, Sandboxes};
use cleveragents_ports::tools::Toolbox;
use cleveragents_ports::{
    Clock, Ids, Liveness, StopReason, StopSignal, StoreError, StoreHandle, StoreOperation,
    Transaction,
};

/// Number of calls read per page.
const PAGE: u32 = 500;

/// Dependencies of [`EngineServices`].
#[derive(Debug, Clone)]
pub struct ExecutorDeps {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// The owner id of this process.
    pub owner: OwnerId,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub toolbox: Arc<dyn Toolbox>,
    pub processes: Arc<dyn Processes>,
    pub models: Arc<dyn Models>,
    pub breaker: CircuitBreaker,
    /// The same for all executors of a process.
    pub slot_queue: SlotQueue,
    /// Masked in everything that reaches a model or the store.
    pub secrets: Secrets,
    /// Becomes true when this process should exit. Work stops at a point from which it can be
    /// resumed.
    pub interrupt: watch::Receiver<bool>,
    pub progress: Arc<dyn ProgressSink>,
    pub policy: ExecutionPolicy,
}

/// Configuration of the work on plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPolicy {
    pub checkpoints: CheckpointPolicy,
    /// Maximum number of plans that run at once on this node.
    pub concurrency: u32,
    /// Maximum number of validations of one plan that run at once.
    pub parallel_validations: usize,
    /// Network access of commands.
    pub network: Network,
    /// The tokens of an answer that are reserved in the budget before each model call.
    pub reserved_answer_tokens: u64,
    /// Retries of failed model calls.
    pub retry: RetryPolicy,
}

/// Everything that the owner of a plan works with. It holds no state of a plan (law 1).
#[derive(Debug)]
pub struct EngineServices {
    pub(crate) store: StoreHandle,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: String,
    pub(crate) lifecycle: PlanLifecycle,
    pub(crate) decisions: DecisionService,
    pub(crate) confidence: ConfidenceService,
    pub(crate) runs: RunService,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) slot_queue: SlotQueue,
    pub(crate) secrets: Secrets,
    pub(crate) interrupt: watch::Receiver<bool>,
    pub(crate) progress: Arc<dyn ProgressSink>,
    pub(crate) policy: ExecutionPolicy,
}

impl EngineServices {
    pub fn new(deps: ExecutorDeps) -> Arc<Self> {
        let ExecutorDeps {
            store,
            ids,
            clock,
            liveness,
            owner,
            sandboxes,
            toolbox,
            processes,
            models,
            breaker,
            slot_queue,
            secrets,
            interrupt,
            progress,
            policy,
        } = deps;
        let live = || Arc::clone(&liveness);
        let id = || Arc::clone(&ids);
        Arc::new(Self {
            lifecycle: PlanLifecycle::new(store.clone(), id(), live()),
            decisions: DecisionService::new(store.clone(), id(), live()),
            confidence: ConfidenceService::new(store.clone(), id()),
            runs: RunService::new(store.clone(), id(), live(), owner),
            store,
            ids,
            clock,
            node: liveness.node().to_owned(),
            sandboxes,
            toolbox,
            processes,
            models,
            breaker,
            slot_queue,
            secrets,
            interrupt,
            progress,
            policy,
        })
    }

    pub(crate) fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }

    /// Fails if the plan's files are on another machine. Called before anything is recorded.
    pub(crate) async fn require_local(
        &self,
        plan: PlanId,
        operation: LocalOperation,
    ) -> Result<()> {
        let node = self.node.clone();
        self.store
            .read(move |tx| require_local_sandboxes(tx, plan, &node, operation.clone()))
            .await
    }

    /// Returns every call of the plan.
    pub(super) async fn tool_calls(&self, plan: PlanId) -> Result<Vec<ToolCallRecord>> {
        self.store
            .read(move |tx| {
                let mut calls: Vec<ToolCallRecord> = Vec::new();
                loop {
                    let after = calls.last().map_or(0, |call| call.number);
                    let page = tx.tool_calls_after(plan, after, PAGE)?;
                    if page.is_empty() {
                        return Ok(calls);
                    }
                    calls.extend(page);
                }
            })
            .await
    }

    pub(crate) async fn sandboxes_of(&self, plan: PlanId) -> Result<Vec<SandboxRecord>> {
        self.store.read(move |tx| Ok(tx.sandboxes_of(plan)?)).await
    }

    /// Kills processes left by calls whose owner is dead.
    pub(super) async fn end_processes(&self, calls: &[ToolCallRecord]) -> Result<()> {
        for mark in calls.iter().filter_map(|call| call.process.clone()) {
            let processes = Arc::clone(&self.processes);
            spawn_blocking(move || processes.kill_leftovers(&mark)).await??;
        }
        Ok(())
    }

    /// Publishes the result as a ref of our own, beside the user's branches, so that git can show
    /// it. Fails early if `stop_receiver` says that the owner must stop.
    pub(super) async fn publish(
        &self,
        plan: &Plan,
        record: &SandboxRecord,
        stop_receiver: Option<&watch::Receiver<Option<StopReason>>>,
    ) -> Result<()> {
        let Some(tree) = record.tree.clone() else {
            return Ok(());
        };
        if record.resource_type != ResourceType::GitCheckout {
            return Ok(());
        }
        let commit = CommitMetadata {
            name: "CleverAgents".to_owned(),
            email: "agents@localhost".to_owned(),
            seconds: self.clock.now().as_micros() / 1_000_000,
            message: format!("{}\n\nPlan {}\n", plan.brief.description, plan.name),
        };
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let publish = move |stop: &StopSignal| sandboxes.open(id)?.publish(&tree, &commit, stop);
        match stop_receiver {
            Some(stop_receiver) => run_until_stopped(stop_receiver, publish).await??,
            None => spawn_blocking(move || publish(&StopSignal::new())).await??,
        };
        Ok(())
    }
}

/// The actors that a plan names, resolved once. What was checked is what runs: an actor updated
/// later does not affect the owner that resolved it.
#[derive(Debug, Default)]
pub(crate) struct PlanActors(BTreeMap<NamespacedName, Actor>);

impl PlanActors {
    /// Reads the plan's actors.
    pub(crate) async fn load(services: &EngineServices, plan: &Plan) -> Result<Self> {
        let names = plan_actor_names(plan);
        let found = services
            .store
            .read(move |tx| Ok::<_, ExecutionError>(find_actors(tx, &names)?))
            .await?;
        Ok(Self::complete(services, &plan_actor_names(plan), found))
    }

    /// Adds the actors of configured models. An actor is built in, stored, or one per configured
    /// model, in this order.
    pub(super) fn complete(
        services: &EngineServices,
        names: &[NamespacedName],
        found: BTreeMap<NamespacedName, Actor>,
    ) -> Self {
        let mut actors = found;
        if names.iter().any(|name| !actors.contains_key(name)) {
            for actor in model_actors(&services.models.configured()) {
                if names.contains(&actor.name) {
                    actors.entry(actor.name.clone()).or_insert(actor);
                }
            }
        }
        Self(actors)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the actor of this name, which the plan must name.
    pub(super) fn get(&self, name: &NamespacedName) -> Result<&Actor> {
        let missing = || ExecutionError::NoActor { name: name.clone() };
        self.0.get(name).ok_or_else(missing)
    }
}

/// Returns the names of the plan's actors, the required ones first.
pub(super) fn plan_actor_names(plan: &Plan) -> Vec<NamespacedName> {
    let actors = &plan.brief.actors;
    let optional = [
        &actors.estimation_actor,
        &actors.review_actor,
        &actors.apply_actor,
        &actors.invariant_actor,
    ];
    let required = [&actors.strategy_actor, &actors.execution_actor];
    let names = required.into_iter().chain(optional.into_iter().flatten());
    names.cloned().collect()
}

/// Returns those of the named actors that are built in or stored.
pub(super) fn find_actors(
    tx: &mut dyn Transaction,
    names: &[NamespacedName],
) -> std::result::Result<BTreeMap<NamespacedName, Actor>, StoreError> {
    let mut found = BTreeMap::new();
    for name in names {
        if let Some(actor) = BuiltInActor::from_name(name).map(BuiltInActor::actor) {
            found.insert(name.clone(), actor);
            continue;
        }
        match tx.actor(name) {
            Ok(row) => {
                found.insert(name.clone(), row.actor);
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
