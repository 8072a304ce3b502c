//! Applies that are not finished, for commands that only read: nothing is claimed or waited for.

use cleveragents_domain::Plan;
use cleveragents_domain::apply_record::ApplyState;
use cleveragents_domain::id::OwnerId;

use crate::ports::{Result, StoreError, StoreHandle};
use crate::runs::{OwnerActivity, RunService};

/// An apply of this node that is neither done nor taken back.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedApply {
    pub plan: Plan,
    pub state: ApplyState,
    pub worker: ApplyWorker,
}

/// The process an unfinished apply is in the hands of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyWorker {
    /// It is at work.
    Working,
    /// It is alive and has not renewed its lease: it hangs, or is stopped.
    Silent(OwnerId),
    /// It is gone; any command that writes goes on with the apply.
    Gone,
}

/// The applies of this node that are not finished.
pub async fn unfinished_applies(
    store: &StoreHandle,
    runs: &RunService,
    node: &str,
) -> Result<Vec<UnfinishedApply>> {
    let found = store.read(|tx| {
        let mut found = Vec::new();
        for record in tx.unfinished_applies()? {
            let (plan, run) = (tx.plan(record.plan_id)?, tx.run_of(record.plan_id)?);
            found.push((record, plan, run));
        }
        Ok::<_, StoreError>((tx.now()?, found))
    });
    let (now, found) = found.await?;
    let of_this_node = found.into_iter().filter(|(record, ..)| record.node == node);
    let unfinished = of_this_node.map(|(record, plan, run)| UnfinishedApply {
        plan,
        state: record.state,
        worker: match run {
            None => ApplyWorker::Gone,
            Some(run) => match runs.activity(&run, now) {
                OwnerActivity::Working => ApplyWorker::Working,
                OwnerActivity::Silent => ApplyWorker::Silent(run.owner),
                OwnerActivity::Gone => ApplyWorker::Gone,
            },
        },
    });
    Ok(unfinished.collect())
}
