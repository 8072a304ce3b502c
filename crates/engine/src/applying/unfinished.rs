//! Lists unfinished applies for read-only commands. Takes no claim and no lock.

use cleveragents_domain::Plan;
use cleveragents_domain::apply_record::{ApplyDirection, ApplyState};
use cleveragents_domain::id::OwnerId;

use crate::runs::{OwnerActivity, RunService};
use cleveragents_ports::{Result, StoreError, StoreHandle};

/// An attempt of this node to apply or to unapply a plan that is neither done nor undone.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedApply {
    pub plan: Plan,
    pub direction: ApplyDirection,
    pub state: ApplyState,
    pub worker: ApplyWorker,
}

/// State of the process that owns an unfinished apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyWorker {
    Working,
    /// It is alive but has not renewed its lease: it hangs or is suspended.
    Silent(OwnerId),
    /// It is gone. Any command that writes resumes the apply.
    Gone,
}

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
        direction: record.direction,
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
