//! The process that runs a plan, as claims see it: its OS lock on this node decides, else its lease.

use cleveragents_api::plan::PlanOwner;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::runs::OwnerActivity;
use cleveragents_ports::StoreError;

use crate::services::Services;

/// Returns the process that runs the plan; nothing if it is dead or its lease is all that is
/// known and has run out.
pub(crate) async fn plan_owner(
    services: &Services,
    plan: PlanId,
) -> Result<Option<PlanOwner>, StoreError> {
    let found = services
        .store()
        .read(move |tx| Ok::<_, StoreError>((tx.now()?, tx.run_of(plan)?)));
    let (now, Some(run)) = found.await? else {
        return Ok(None);
    };
    let runs = services.runs();
    let is_silent = match runs.activity(&run, now) {
        OwnerActivity::Gone => return Ok(None),
        OwnerActivity::Silent => true,
        OwnerActivity::Working => false,
    };
    Ok(Some(PlanOwner {
        pid: runs.process_id(&run),
        owner: run.owner,
        node: run.node,
        since: run.claimed_at,
        epoch: run.epoch,
        responds: !is_silent,
    }))
}

/// Returns the shell command that continues a stopped process.
pub fn continue_command(owner: &PlanOwner) -> Option<String> {
    let pid = owner.pid.filter(|_| !owner.responds)?;
    Some(format!("kill -CONT {pid}"))
}
