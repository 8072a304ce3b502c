//! Owns a plan while it is worked on: keeps its lease alive, watches for stop requests and releases
//! the run.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, Phase, Plan, ValidationSummary};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{ExecutionError, Result};
use super::executor::{ExecuteOutcome, POLL_INTERVAL};
use super::plan_run::{Approvals, PlanRun, PlanSnapshot};
use super::services::EngineServices;
use super::validator::Validator;
use super::workspace::Workspace;
use crate::lifecycle::LifecycleError;
use crate::runs::{ClaimOutcome, RunLease};
use cleveragents_ports::{Slots, StopReason, StoreHandle};

/// Minimum pause between two polls. Without it, many owners that each poll after every commit of
/// any of them would do little else.
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// An error of work that the owner of a plan does.
pub(crate) trait OwnerError: From<ExecutionError> {
    /// Whether another process owns the plan now.
    fn is_lease_lost(&self) -> bool;
}

impl OwnerError for ExecutionError {
    fn is_lease_lost(&self) -> bool {
        Self::is_lease_lost(self)
    }
}

/// The outcome of an owner's work, after the run was released.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    pub(crate) outcome: T,
    /// The plan, if a cancel request arrived during the work and the plan was cancelled.
    pub(crate) cancelled: Option<Plan>,
}

/// Claims a plan's run without taking a slot. Fails if another live process owns the plan.
pub(crate) async fn claim_run(
    services: &EngineServices,
    plan: PlanId,
    phase: Phase,
) -> Result<RunLease> {
    match services.runs.claim(plan, phase, Slots::Shared).await? {
        ClaimOutcome::Won(lease) => Ok(lease),
        ClaimOutcome::Held(holder) => Err(LifecycleError::owned(holder, &services.runs).into()),
        ClaimOutcome::NoSlot { running } => {
            let number = running.len();
            let reason = format!("no slot is needed, yet {number} plans have them all");
            Err(ExecutionError::Internal { reason })
        }
    }
}

/// Works on the plan of this run as its owner, and releases the run. The lease is kept alive
/// meanwhile. The plan is read after the claim: another owner may have moved it before.
pub(crate) async fn own_plan<T, E: OwnerError>(
    services: &Arc<EngineServices>,
    lease: RunLease,
    work: impl AsyncFnOnce(&mut PlanRun) -> Result<T, E>,
) -> Result<Owned<T>, E> {
    let alive = lease.keep_alive();
    let (worked, lease) = match PlanSnapshot::load(services, lease.lease().plan).await {
        Ok(snapshot) => {
            let mut run = PlanRun::new(services, lease, alive, snapshot);
            let worked = work(&mut run).await;
            (worked, run.lease)
        }
        Err(error) => {
            drop(alive);
            (Err(error.into()), lease)
        }
    };
    let cancelled = if worked.as_ref().is_err_and(E::is_lease_lost) {
        // Another process owns the plan now, so there is nothing to release (law 5).
        None
    } else {
        let released = services.lifecycle.release(lease).await;
        match released {
            // The error of the work is the cause, and the lease expires by itself.
            Err(error) if worked.is_err() => {
                tracing::warn!(%error, "the run was not released");
                None
            }
            released => released.map_err(ExecutionError::from)?,
        }
    };
    let outcome = worked?;
    Ok(Owned { outcome, cancelled })
}

/// The work that an owner can be stopped from doing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoppableWork {
    /// Runs the plan's phases.
    Drive,
    /// Validates a result after a rebase.
    Validate,
}

/// Works until the work is done or must stop, and records its error with the plan.
pub(crate) async fn run_stoppable(
    run: &mut PlanRun,
    work: StoppableWork,
) -> Result<ExecuteOutcome> {
    let outcome = run_with_watcher(run, work).await;
    run.conclude(outcome).await
}

/// Works until the work is done or must stop.
async fn run_with_watcher(run: &mut PlanRun, stoppable: StoppableWork) -> Result<ExecuteOutcome> {
    run.end_slot_wait().await?;
    // The plan was read when this process owned it: its budget may have grown while it waited.
    let deadline = run.deadline().await?;
    // Do not start if no time is left.
    let late = deadline.is_some_and(|end| Instant::now() >= end);
    let stop_sender = run.stop_sender.clone();
    stop_sender.send_replace(late.then_some(StopReason::OutOfTime));
    let watcher = tokio::spawn(watch_for_stop(StopWatch {
        store: run.services.store.clone(),
        plan: run.id(),
        sender: stop_sender.clone(),
        interrupt: Some(run.services.interrupt.clone()),
        deadline,
    }));
    let lost = run.alive.lost();
    let outcome = {
        let mut work = pin!(async {
            match stoppable {
                StoppableWork::Drive => {
                    Approvals::take_pending(run).await?;
                    run.drive().await
                }
                StoppableWork::Validate => run.validate_rebased().await,
            }
        });
        tokio::select! {
            worked = &mut work => worked,
            () = lost => {
                // Stop the running work and wait for it to end.
                let _ = stop_sender.send(Some(StopReason::LeaseLost));
                // Dropping the future would leave a thread of a tool running in the sandbox.
                work.await
            }
        }
    };
    // Safe at any point: it only reads.
    watcher.abort();
    outcome
}

/// Runs one round of validations for an owner that has no stop signal. A cancel request stops it.
pub(super) async fn validate_unless_cancelled(
    validator: &Validator<'_>,
    workspace: &Workspace,
    round: u32,
) -> Result<std::result::Result<ValidationSummary, StopReason>> {
    let (sender, stop) = watch::channel(None);
    let watcher = tokio::spawn(watch_for_stop(StopWatch {
        store: validator.services.store.clone(),
        plan: validator.plan.identity.plan_id,
        sender,
        interrupt: None,
        deadline: None,
    }));
    let outcome = validator.validate_round(workspace, round, &stop).await;
    watcher.abort();
    outcome
}

/// The reasons to stop the owner of a plan, and where to send them.
struct StopWatch {
    store: StoreHandle,
    plan: PlanId,
    sender: watch::Sender<Option<StopReason>>,
    interrupt: Option<watch::Receiver<bool>>,
    deadline: Option<Instant>,
}

/// Watches for a cancel request, for the interrupt and for the deadline, and sends the stop reason.
async fn watch_for_stop(watched: StopWatch) {
    let StopWatch {
        store,
        plan,
        sender,
        mut interrupt,
        deadline,
    } = watched;
    let mut hints = store.watch_commits();
    let why = loop {
        let pending = store
            .read(move |tx| tx.pending_messages(plan, &[MessageKind::Cancel]))
            .await;
        // A failed read is not a cancel. The next poll repeats it.
        if pending.is_ok_and(|count: u64| count > 0) {
            break StopReason::Cancelled;
        }
        let again = async {
            tokio::time::sleep(POLL_PAUSE).await;
            // Ignored: a hint, a timeout and a closed channel all lead to the next poll.
            let _ = tokio::time::timeout(POLL_INTERVAL, hints.changed()).await;
        };
        let late = async {
            match deadline {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let interrupted = async {
            let asked = match &mut interrupt {
                Some(interrupt) => interrupt.wait_for(|asked| *asked).await.is_ok(),
                None => false,
            };
            if !asked {
                // There is no channel, or it is closed: no stop request can arrive any more.
                std::future::pending().await
            }
        };
        tokio::select! {
            // An interrupt wins over the deadline: the user's process is about to exit.
            biased;
            () = interrupted => break StopReason::Interrupted,
            () = late => break StopReason::OutOfTime,
            () = again => {}
        }
    };
    // A closed channel means that the work has just ended.
    let _ = sender.send(Some(why));
}
