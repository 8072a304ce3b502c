//! Driving a plan: Strategize and Execute, up to the gate where a human must decide.
//!
//! [`Executor::execute`] is a human's word to go on. It is on record before anything happens; then
//! this process claims the plan's run, works, and gives it back. A plan whose owner died is taken
//! over where its last confirmed call left it.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use cleveragents_domain::actor::{Actor, BuiltInActor, model_actors};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::process::Network;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{ErrorCategory, NamespacedName, Phase, Plan, State, Waiting};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::checkpoints::CheckpointPolicy;
use super::error::{ExecutionError, Result};
use super::owning::OwnedWork;
use super::slot::Waited;
use super::strategize::Strategized;
use super::word::{Wanted, Word, approve};
use super::work::PhaseEnd;
use crate::breaker::CircuitBreaker;
use crate::confidence::{ConfidenceService, EscalationDecision};
use crate::decisions::DecisionService;
use crate::lifecycle::{LifecycleError, PlanLifecycle};
use crate::ports::models::Models;
use crate::ports::processes::Processes;
use crate::ports::sandbox::Sandboxes;
use crate::ports::tools::Toolbox;
use crate::ports::{Clock, Ids, Liveness, Operation, Slots, Stopped, StoreError, StoreHandle};
use crate::recovery::{Trouble, record_error};
use crate::retry::RetryPolicy;
use crate::runs::{Outcome, RunLease, RunService};
use crate::secrets::Secrets;

/// How often the owner looks whether it was asked to stop, and a waiting one for a free slot.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// What an executor is made of.
#[derive(Debug, Clone)]
pub struct Means {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// This process.
    pub owner: OwnerId,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub toolbox: Arc<dyn Toolbox>,
    pub processes: Arc<dyn Processes>,
    pub models: Arc<dyn Models>,
    pub breaker: CircuitBreaker,
    /// What must not reach a model or the store.
    pub secrets: Secrets,
    /// Turns true when this process is asked to end: the work stops where it can be gone on with.
    pub interrupt: watch::Receiver<bool>,
    pub policy: ExecutionPolicy,
}

/// What is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPolicy {
    pub checkpoints: CheckpointPolicy,
    /// How many plans may run at once on this node.
    pub concurrency: u32,
    /// How many validations of a plan run at once.
    pub parallel_validations: usize,
    /// Whether commands may use the network.
    pub network: Network,
    /// When a model that failed is asked again.
    pub retry: RetryPolicy,
}

/// Drives plans in this process's name.
#[derive(Debug, Clone)]
pub struct Executor {
    pub(crate) store: StoreHandle,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The name of this machine.
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
    pub(crate) secrets: Secrets,
    pub(crate) interrupt: watch::Receiver<bool>,
    pub(crate) policy: ExecutionPolicy,
    /// Whoever of this process waits for a slot waits here, but for the first, who looks for one.
    pub(super) line: Arc<Mutex<()>>,
}

/// Where a command to go on came to an end.
#[derive(Debug, Clone, PartialEq)]
pub enum Executed {
    /// Nothing was outstanding.
    Stands(Plan),
    /// A human must decide about the strategy.
    Gate {
        plan: Plan,
        decision: Box<EscalationDecision>,
    },
    /// The plan waits for something, and nobody owns it meanwhile.
    Waits {
        plan: Plan,
        waiting: Waiting,
        reason: String,
    },
    /// A limit of the profile is reached.
    Limit {
        plan: Plan,
        reason: String,
    },
    /// Execute is complete; whether the profile lets the plan be applied by itself.
    Complete {
        plan: Plan,
        applies: MayApply,
    },
    /// Required validations failed.
    Constrained {
        plan: Plan,
        reason: String,
    },
    Failed {
        plan: Plan,
        reason: String,
    },
    Cancelled(Plan),
}

/// How a plan was left that nobody works on yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    Queued(Plan),
    /// Nobody who had seen its strategy has approved it.
    Unapproved(Plan),
    /// Nothing was outstanding.
    Stands(Plan),
}

/// Whether a plan may be applied without a human.
#[derive(Debug, Clone, PartialEq)]
pub enum MayApply {
    Yes,
    /// Why not.
    No(String),
}

impl Executed {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Stands(plan)
            | Self::Gate { plan, .. }
            | Self::Waits { plan, .. }
            | Self::Limit { plan, .. }
            | Self::Complete { plan, .. }
            | Self::Constrained { plan, .. }
            | Self::Failed { plan, .. }
            | Self::Cancelled(plan) => plan,
        }
    }
}

impl Executor {
    pub fn new(means: Means) -> Self {
        let Means {
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
            secrets,
            interrupt,
            policy,
        } = means;
        let live = || Arc::clone(&liveness);
        let id = || Arc::clone(&ids);
        Self {
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
            secrets,
            interrupt,
            policy,
            line: Arc::default(),
        }
    }

    /// Takes the plan on, as far as its profile allows after this word of a human. `waits` is told
    /// when all slots of this node are taken.
    pub async fn execute(
        &self,
        plan: PlanId,
        actor: &str,
        waits: &(dyn Fn(usize) + Sync),
    ) -> Result<Executed> {
        self.go_on(plan, (Wanted::Execute, actor), waits).await
    }

    /// The same word on record, and the plan left queued for whoever goes on with it.
    pub async fn leave_queued(&self, plan: PlanId, actor: &str) -> Result<Left> {
        Ok(match self.word(plan, Wanted::Execute, actor).await? {
            Word::Work { plan, .. } => Left::Queued(*plan),
            Word::Unapproved(plan) => Left::Unapproved(*plan),
            Word::Nothing(plan) => Left::Stands(*plan),
        })
    }

    /// Takes the plan on from where it stands, as far as its profile and the words already given
    /// allow: what waits for an approval goes on waiting.
    pub async fn resume(
        &self,
        plan: PlanId,
        actor: &str,
        waits: &(dyn Fn(usize) + Sync),
    ) -> Result<Executed> {
        self.go_on(plan, (Wanted::Resume, actor), waits).await
    }

    async fn go_on(
        &self,
        plan: PlanId,
        (wanted, actor): (Wanted, &str),
        waits: &(dyn Fn(usize) + Sync),
    ) -> Result<Executed> {
        self.can_think(plan).await?;
        let mut wanted = wanted;
        let (plan, approvals) = loop {
            match self.word(plan, wanted, actor).await? {
                Word::Nothing(plan) => {
                    let plan = self.judge_rejected(*plan).await?;
                    return self.outstanding_apply(plan).await;
                }
                Word::Work { plan, approvals } => break (plan, approvals),
                Word::Unapproved(plan) => {
                    let decision = Box::new(self.judge(&plan).await?);
                    if !decision.proceed {
                        let plan = *plan;
                        return Ok(Executed::Gate { plan, decision });
                    }
                    wanted = Wanted::Proceed {
                        version: plan.version,
                    };
                }
            }
        };
        let Some(run) = self.claim(&plan, waits).await? else {
            let plan = self.lifecycle.plan(plan.identity.plan_id).await?;
            return Ok(match plan.position.state() {
                State::Cancelled => Executed::Cancelled(plan),
                _ => Executed::Stands(plan),
            });
        };
        self.own(run, OwnedWork::Drive { approvals }).await
    }

    /// What is left to do for a plan that is executed: a profile that applies by itself does so
    /// also after the process that should have done it died.
    async fn outstanding_apply(&self, plan: Plan) -> Result<Executed> {
        if plan.position.is_terminal() {
            return Ok(Executed::Stands(plan));
        }
        match self.may_apply(&plan).await? {
            MayApply::No(_) => Ok(Executed::Stands(plan)),
            applies => Ok(Executed::Complete { plan, applies }),
        }
    }

    /// Claims the plan's run, waiting for a slot if need be; nothing if the plan was finished
    /// meanwhile.
    async fn claim(&self, plan: &Plan, waits: &(dyn Fn(usize) + Sync)) -> Result<Option<RunLease>> {
        let id = plan.identity.plan_id;
        let slots = match plan.identity.parent_plan_id {
            Some(_) => Slots::Shared,
            None => Slots::Limit(self.policy.concurrency),
        };
        let mut line: Option<OwnedMutexGuard<()>> = None;
        loop {
            // Looked at before the claim: a slot that is given back meanwhile is not missed.
            let hints = self.store.hints();
            match self.runs.claim(id, plan.position.phase(), slots).await? {
                Outcome::Won(run) => return Ok(Some(run)),
                Outcome::Held(holder) => return Err(LifecycleError::Owned { holder }.into()),
                Outcome::NoSlot { running } => {
                    self.wait_for_slot(id).await?;
                    waits(running.len());
                    let waited = match line {
                        None => self.stand_in_line(id, &mut line).await?,
                        Some(_) => self.wait_for_room(id, hints, &running).await?,
                    };
                    if waited == Waited::Over {
                        return Ok(None);
                    }
                }
            }
        }
    }

    pub(super) async fn drive(
        &self,
        run: &RunLease,
        stop: &watch::Receiver<Option<Stopped>>,
        approvals: &AtomicU32,
    ) -> Result<Executed> {
        let id = run.lease().plan;
        let plan = self.lifecycle.plan(id).await?;
        let (phase, state) = (plan.position.phase(), plan.position.state());
        let outstanding = phase != Phase::Apply
            && plan.position.waiting().is_none()
            && matches!(state, State::Queued | State::Processing);
        if !outstanding {
            // Somebody moved it between the word and the claim.
            return Ok(Executed::Stands(plan));
        }
        let mut plan = self.enter(run, plan).await?;
        if plan.position.phase() == Phase::Strategize {
            let strategy = match self.strategize(run, &plan, (stop, approvals)).await? {
                Strategized::Strategy(strategy) => *strategy,
                Strategized::Ended(end) => return self.end_phase(run, end.into()).await,
            };
            plan = self.lifecycle.complete(run).await?;
            let decision = self.judge(&plan).await?;
            if !decision.proceed {
                return Ok(Executed::Gate {
                    plan,
                    decision: Box::new(decision),
                });
            }
            let by = StrategyRecord::approver(&plan.brief.automation_profile.name);
            run.write(self.operation("strategy.approve"), move |unit| {
                let mut strategy = strategy.clone();
                strategy.approved_by = Some(by.clone());
                approve(unit, strategy)
            })
            .await?;
            plan = self.lifecycle.advance_as_owner(run, Phase::Execute).await?;
            plan = self.enter(run, plan).await?;
        }
        let end = self.execute_phase(run, &plan, (stop, approvals)).await?;
        self.end_phase(run, end).await
    }

    /// Leaves the plan as the work on its phase ended.
    pub(super) async fn end_phase(&self, run: &RunLease, end: PhaseEnd) -> Result<Executed> {
        match end {
            PhaseEnd::Complete(plan) => {
                let applies = self.may_apply(&plan).await?;
                Ok(Executed::Complete { plan, applies })
            }
            PhaseEnd::Constrained(plan, reason) => Ok(Executed::Constrained { plan, reason }),
            PhaseEnd::Waits { waiting, reason } => {
                let plan = self.lifecycle.wait(run, waiting).await?;
                Ok(Executed::Waits {
                    plan,
                    waiting,
                    reason,
                })
            }
            PhaseEnd::Limit(reason) => {
                let plan = self.lifecycle.fail(run, &reason).await?;
                Ok(Executed::Limit { plan, reason })
            }
            PhaseEnd::Failed(reason) => {
                let plan = self.lifecycle.fail(run, &reason).await?;
                Ok(Executed::Failed { plan, reason })
            }
            PhaseEnd::Stopped(why) => Err(ExecutionError::Stopped(why)),
        }
    }

    /// Takes up the phase, unless a dead owner already had.
    pub(crate) async fn enter(&self, run: &RunLease, plan: Plan) -> Result<Plan> {
        match plan.position.state() {
            State::Processing => Ok(plan),
            _ => {
                let seen = self.look_around(&plan).await?;
                Ok(self.lifecycle.start(run, &seen).await?)
            }
        }
    }

    /// What went wrong is on record with the plan, if the plan is still ours.
    pub(super) async fn conclude(
        &self,
        run: &RunLease,
        worked: Result<Executed>,
    ) -> Result<Executed> {
        let error = match worked {
            Ok(executed) => return Ok(executed),
            Err(error) if error.is_lease_lost() => return Err(error),
            Err(error) => error,
        };
        let id = run.lease().plan;
        let plan = self.lifecycle.plan(id).await?;
        if matches!(error, ExecutionError::Stopped(Stopped::Cancelled)) {
            // The message is taken, and the plan cancelled, when the run is given back.
            return Ok(Executed::Cancelled(plan));
        }
        if matches!(error, ExecutionError::Stopped(Stopped::Interrupted)) {
            // It stays as it is, for whoever goes on.
            return Err(error);
        }
        if plan.position.state() != State::Processing {
            return Err(error);
        }
        if matches!(error, ExecutionError::Stopped(Stopped::OutOfTime)) {
            return self.out_of_time(run, &plan).await;
        }
        let reason = error.to_string();
        let trouble = Trouble::plain(category(&error), &reason);
        self.record_trouble(run, trouble).await?;
        let plan = self.lifecycle.fail(run, &reason).await?;
        Ok(Executed::Failed { plan, reason })
    }

    /// Puts on record with the plan what went wrong.
    pub(super) async fn record_trouble(&self, run: &RunLease, trouble: Trouble) -> Result<()> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        let ids = Arc::clone(&self.ids);
        run.write(self.operation("plan.record-error"), move |unit| {
            record_error(unit, &*ids, plan, &trouble, &actor)?;
            Ok::<_, ExecutionError>(())
        })
        .await
    }

    /// The actor of this name.
    pub(crate) async fn actor(&self, name: &NamespacedName) -> Result<Actor> {
        if let Some(actor) = BuiltInActor::of(name).map(BuiltInActor::actor) {
            return Ok(actor);
        }
        let wanted = name.clone();
        let found = self.store.read(move |unit| unit.actor(&wanted)).await;
        match found {
            Ok(row) => Ok(row.actor),
            Err(StoreError::NotFound { .. }) => model_actors(&self.models.configured())
                .into_iter()
                .find(|actor| actor.name == *name)
                .ok_or_else(|| ExecutionError::NoActor { name: name.clone() }),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

const fn category(error: &ExecutionError) -> ErrorCategory {
    match error {
        ExecutionError::Sandbox(_)
        | ExecutionError::SandboxRemoved { .. }
        | ExecutionError::Resource { .. } => ErrorCategory::Resource,
        ExecutionError::Process(_) => ErrorCategory::Tool,
        ExecutionError::Render(_) => ErrorCategory::Validation,
        _ => ErrorCategory::Internal,
    }
}
