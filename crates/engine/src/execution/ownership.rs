//! Owns a plan while it is worked on: keeps its lease alive, watches for stop requests and releases
//! the run.

use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, Plan, PlanState, ValidationSummary};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{ExecutionError, Result};
use super::executor::{ExecuteOutcome, Executor, POLL_INTERVAL};
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

impl Executor {
    /// Works on the plan of this run and releases the run.
    pub(crate) async fn run_owned(&self, run: RunLease, work: OwnedWork) -> Result<ExecuteOutcome> {
        let mut alive = run.keep_alive();
        let outcome = self.run_with_watcher(&run, work, &mut alive).await;
        let ended = self.conclude(&run, outcome).await;
        drop(alive);
        // Another process owns the plan now, so there is nothing to release (law 5).
        if ended.as_ref().is_err_and(ExecutionError::is_lease_lost) {
            return ended;
        }
        let id = run.lease().plan;
        self.lifecycle.release(run).await?;
        let plan = self.lifecycle.plan(id).await?;
        match ended {
            Ok(_) if plan.position.state() == PlanState::Cancelled => {
                Ok(ExecuteOutcome::Cancelled(plan))
            }
            other => other,
        }
    }

    /// Works until the work is done or must stop.
    async fn run_with_watcher(
        &self,
        run: &RunLease,
        owned: OwnedWork,
        alive: &mut KeepAlive,
    ) -> Result<ExecuteOutcome> {
        self.end_slot_wait(run).await?;
        // Read the plan again now that this process owns it: its budget may have grown while it
        // waited.
        let plan = self.lifecycle.plan(run.lease().plan).await?;
        let deadline = self.deadline(run, &plan).await?;
        // Do not start if no time is left.
        let late = deadline.is_some_and(|end| Instant::now() >= end);
        let (sender, stop) = watch::channel(late.then_some(StopReason::OutOfTime));
        let watcher = tokio::spawn(watch_for_stop(
            self.store.clone(),
            plan.identity.plan_id,
            (sender.clone(), self.interrupt.clone()),
            deadline,
        ));
        let outcome = {
            let mut work = pin!(async {
                match owned {
                    OwnedWork::Drive { approvals } => {
                        self.drive(run, &stop, &AtomicU32::new(approvals)).await
                    }
                    OwnedWork::Validate => self.validate_rebased(run, &stop).await,
                }
            });
            tokio::select! {
                worked = &mut work => worked,
                () = alive.lost() => {
                    // Stop the running work and wait for it to end.
                    let _ = sender.send(Some(StopReason::LeaseLost));
                    work.await
                }
            }
        };
        watcher.abort();
        outcome
    }
}

impl Executor {
    /// Runs one round of validations for an owner that has no stop signal. A cancel request stops
    /// it.
    pub(super) async fn validate_unless_cancelled(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
    ) -> Result<std::result::Result<ValidationSummary, StopReason>> {
        let (sender, stop) = watch::channel(None);
        let (_never, interrupt) = watch::channel(false);
        let watcher = tokio::spawn(watch_for_stop(
            self.store.clone(),
            plan.identity.plan_id,
            (sender, interrupt),
            None,
        ));
        let outcome = self.validate_round(plan, workspace, round, &stop).await;
        watcher.abort();
        outcome
    }
}

/// Watches for a cancel request, for the interrupt and for the deadline, and sends the stop reason.
async fn watch_for_stop(
    store: StoreHandle,
    plan: PlanId,
    (sender, interrupt): (watch::Sender<Option<StopReason>>, watch::Receiver<bool>),
    deadline: Option<Instant>,
) {
    let (mut hints, mut interrupt) = (store.watch_commits(), interrupt);
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
        tokio::select! {
            biased;
            Ok(_) = interrupt.wait_for(|asked| *asked) => break StopReason::Interrupted,
            () = late => break StopReason::OutOfTime,
            () = again => {}
        }
    };
    // A closed channel means that the work has just ended.
    let _ = sender.send(Some(why));
}
