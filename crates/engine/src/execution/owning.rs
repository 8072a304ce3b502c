//! Owning a plan: it is worked on under a lease that is kept alive, watched for whoever wants it to
//! stop, and given back.

use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, Plan, State, ValidationSummary};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{ExecutionError, Result};
use super::executor::{Executed, Executor, POLL};
use super::workspace::Workspace;
use crate::ports::{Stopped, StoreHandle};
use crate::runs::{KeepAlive, RunLease};

/// How long an owner does not look again, however much happens: many who each look after every
/// write of any of them would do little else.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What an owner does with its plan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnedWork {
    /// Runs its phases; so many calls that wait for an approval have it.
    Drive { approvals: u32 },
    /// Validates a result that was moved onto another base.
    Validate,
}

impl Executor {
    /// Works on the plan whose run this is, and gives the run back.
    pub(crate) async fn own(&self, run: RunLease, work: OwnedWork) -> Result<Executed> {
        let mut alive = run.keep_alive();
        let worked = self.work_watched(&run, work, &mut alive).await;
        let ended = self.conclude(&run, worked).await;
        drop(alive);
        if ended.as_ref().is_err_and(ExecutionError::is_lease_lost) {
            return ended;
        }
        let id = run.lease().plan;
        self.lifecycle.give_back(run).await?;
        let plan = self.lifecycle.plan(id).await?;
        match ended {
            Ok(_) if plan.position.state() == State::Cancelled => Ok(Executed::Cancelled(plan)),
            other => other,
        }
    }

    /// Works on until it is done, or has to stop.
    async fn work_watched(
        &self,
        run: &RunLease,
        owned: OwnedWork,
        alive: &mut KeepAlive,
    ) -> Result<Executed> {
        self.take_slot(run).await?;
        // As it is now that it is ours: its budget may have grown while it waited.
        let plan = self.lifecycle.plan(run.lease().plan).await?;
        let deadline = self.deadline(run, &plan).await?;
        // Who has no time left does not begin.
        let late = deadline.is_some_and(|end| Instant::now() >= end);
        let (sender, stop) = watch::channel(late.then_some(Stopped::OutOfTime));
        let watchman = tokio::spawn(watch_over(
            self.store.clone(),
            plan.identity.plan_id,
            (sender.clone(), self.interrupt.clone()),
            deadline,
        ));
        let worked = {
            let mut work = pin!(async {
                match owned {
                    OwnedWork::Drive { approvals } => {
                        self.drive(run, &stop, &AtomicU32::new(approvals)).await
                    }
                    OwnedWork::Validate => self.validate_moved(run, &stop).await,
                }
            });
            tokio::select! {
                worked = &mut work => worked,
                () = alive.lost() => {
                    // Whatever runs is told to stop, and waited for.
                    let _ = sender.send(Some(Stopped::LeaseLost));
                    work.await
                }
            }
        };
        watchman.abort();
        worked
    }
}

impl Executor {
    /// One round of validations for an owner that has no stop signal: a cancel ends it too.
    pub(super) async fn validate_unless_cancelled(
        &self,
        plan: &Plan,
        workspace: &Workspace,
        round: u32,
    ) -> Result<std::result::Result<ValidationSummary, Stopped>> {
        let (sender, stop) = watch::channel(None);
        let (_never, interrupt) = watch::channel(false);
        let watchman = tokio::spawn(watch_over(
            self.store.clone(),
            plan.identity.plan_id,
            (sender, interrupt),
            None,
        ));
        let judged = self.validate_round(plan, workspace, round, &stop).await;
        watchman.abort();
        judged
    }
}

/// Looks whether somebody asked the owner to stop, or the plan's time is up.
async fn watch_over(
    store: StoreHandle,
    plan: PlanId,
    (sender, interrupt): (watch::Sender<Option<Stopped>>, watch::Receiver<bool>),
    deadline: Option<Instant>,
) {
    let (mut hints, mut interrupt) = (store.hints(), interrupt);
    let why = loop {
        let pending = store
            .read(move |unit| unit.pending_messages(plan, &[MessageKind::Cancel]))
            .await;
        if pending.is_ok_and(|count: u64| count > 0) {
            break Stopped::Cancelled;
        }
        let again = async {
            tokio::time::sleep(LOOK_PAUSE).await;
            let _ = tokio::time::timeout(POLL, hints.changed()).await;
        };
        let late = async {
            match deadline {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(_) = interrupt.wait_for(|asked| *asked) => break Stopped::Interrupted,
            () = late => break Stopped::OutOfTime,
            () = again => {}
        }
    };
    // Nobody listening means that the work has just ended.
    let _ = sender.send(Some(why));
}
