//! Owns a plan while it is worked on: keeps its lease alive, watches for stop requests and releases
//! the run.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, ValidationSummary};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{ExecutionError, Result};
use super::executor::{ExecuteOutcome, POLL_INTERVAL};
use super::plan_run::{Approvals, PlanRun, PlanSnapshot};
use super::services::EngineServices;
use super::validator::Validator;
use super::workspace::Workspace;
use crate::runs::{KeepAlive, RunLease};
use cleveragents_ports::{StopReason, StoreHandle};

/// Minimum pause between two polls. Without it, many owners that each poll after every commit of
/// any of them would do little else.
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// The work an owner does on its plan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnedWork {
    /// Runs its phases. `approvals` is the number of pending calls that the user approved.
    Drive { approvals: u32 },
    /// Validates a result after a rebase.
    Validate,
}

/// Works on the plan of this run and releases the run.
pub(crate) async fn run_owned(
    services: &Arc<EngineServices>,
    lease: RunLease,
    work: OwnedWork,
) -> Result<ExecuteOutcome> {
    let mut alive = lease.keep_alive();
    let snapshot = match PlanSnapshot::load(services, lease.lease().plan).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            drop(alive);
            services.lifecycle.release(lease).await?;
            return Err(error);
        }
    };
    let mut run = PlanRun::new(services, lease, snapshot);
    let outcome = run_with_watcher(&mut run, work, &mut alive).await;
    let ended = run.conclude(outcome).await;
    drop(alive);
    // Another process owns the plan now, so there is nothing to release (law 5).
    if ended.as_ref().is_err_and(ExecutionError::is_lease_lost) {
        return ended;
    }
    let cancelled = services.lifecycle.release(run.lease).await?;
    match (ended, cancelled) {
        (Ok(_), Some(plan)) => Ok(ExecuteOutcome::Cancelled(plan)),
        (ended, _) => ended,
    }
}

/// Works until the work is done or must stop.
async fn run_with_watcher(
    run: &mut PlanRun,
    owned: OwnedWork,
    alive: &mut KeepAlive,
) -> Result<ExecuteOutcome> {
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
    let outcome = {
        let mut work = pin!(async {
            match owned {
                OwnedWork::Drive { approvals } => {
                    run.approvals = Approvals::new(approvals);
                    run.drive().await
                }
                OwnedWork::Validate => run.validate_rebased().await,
            }
        });
        tokio::select! {
            worked = &mut work => worked,
            () = alive.lost() => {
                // Stop the running work and wait for it to end.
                let _ = stop_sender.send(Some(StopReason::LeaseLost));
                work.await
            }
        }
    };
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
        if pending.is_ok_and(|count: u64| count > 0) {
            break StopReason::Cancelled;
        }
        let again = async {
            tokio::time::sleep(POLL_PAUSE).await;
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
                // There is no channel, or it is closed: nobody can ask any more.
                std::future::pending().await
            }
        };
        tokio::select! {
            biased;
            () = interrupted => break StopReason::Interrupted,
            () = late => break StopReason::OutOfTime,
            () = again => {}
        }
    };
    // A closed channel means that the work has just ended.
    let _ = sender.send(Some(why));
}
