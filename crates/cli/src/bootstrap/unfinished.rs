//! Recovery of applies that a process on this machine left unfinished. Commands that write finish
//! them; all others only report them.

use cleveragents_domain::apply_record::ApplyState;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::applying::{
    ApplyWorker, RecoveredApply, UnfinishedApply, unfinished_applies,
};
use cleveragents_ports::StoreError;

use super::AppContext;

impl AppContext<'_> {
    /// Finishes or aborts applies whose process died. A failure is only logged, because the command
    /// that the user asked for does not depend on it. A decided apply of the plan `abandoned` is
    /// not touched.
    pub(super) fn recover_applies(&self, abandoned: Option<PlanId>) -> Result<(), StoreError> {
        let left = self.unfinished_applies()?;
        if left.iter().any(|it| it.worker == ApplyWorker::Gone) {
            let recovered = self
                .recovery_apply_service()
                .and_then(|service| Ok(self.block_on(service.recover(abandoned))?));
            match recovered {
                Ok(recovery) => {
                    recovery.done.iter().for_each(warn_recovered);
                    for failure in recovery.failed {
                        tracing::warn!("an apply could not be finished: {failure}");
                    }
                }
                Err(failure) => {
                    tracing::warn!("an apply could not be finished: {}", failure.message);
                }
            }
        }
        let others = left.iter().filter(|it| it.worker != ApplyWorker::Gone);
        others.for_each(|it| self.warn_unfinished(it));
        Ok(())
    }

    /// Logs each unfinished apply and the command that finishes it.
    pub(super) fn warn_unfinished_applies(&self) -> Result<(), StoreError> {
        let left = self.unfinished_applies()?;
        left.iter().for_each(|it| self.warn_unfinished(it));
        Ok(())
    }

    fn unfinished_applies(&self) -> Result<Vec<UnfinishedApply>, StoreError> {
        let node = &self.bootstrap.node;
        self.block_on(unfinished_applies(&self.store, &self.runs(), node))
    }

    fn warn_unfinished(&self, apply: &UnfinishedApply) {
        let (name, id) = (&apply.plan.name, apply.plan.identity.plan_id);
        match (apply.worker, apply.state) {
            (ApplyWorker::Working, _) => {}
            (ApplyWorker::Silent(owner), _) => {
                match self.bootstrap.options.presence.process_info(owner) {
                    Some(card) => {
                        let pid = card.pid;
                        tracing::warn!(
                            "the apply of plan {name} does not respond: process {pid} ({}) hangs or is \
                         stopped; `kill -CONT {pid}` continues it, or end it and run \
                         `agents plan resume {id}`",
                            card.command
                        );
                    }
                    None => tracing::warn!(
                        "the apply of plan {name} does not respond; see `agents plan status {id}`"
                    ),
                }
            }
            (ApplyWorker::Gone, ApplyState::Preparing) => tracing::warn!(
                "an apply was interrupted before anything was changed: plan {name}; \
                 `agents plan apply {id}` tries again"
            ),
            (ApplyWorker::Gone, _) => tracing::warn!(
                "an apply was interrupted: plan {name}; `agents plan resume {id}` finishes it"
            ),
        }
    }
}

fn warn_recovered(recovered: &RecoveredApply) {
    match recovered {
        RecoveredApply::Finished(plan) => {
            tracing::warn!("an interrupted apply was finished: plan {}", plan.name);
        }
        RecoveredApply::Aborted(plan) => {
            tracing::warn!(
                "an apply was interrupted before anything was changed: plan {}; \
                 `agents plan apply {}` tries again",
                plan.name,
                plan.identity.plan_id
            );
        }
        RecoveredApply::Stopped(plan) => {
            tracing::warn!(
                "an interrupted apply cannot be finished: a target of plan {} was changed; see \
                 `agents plan status {}`",
                plan.name,
                plan.identity.plan_id
            );
        }
    }
}
