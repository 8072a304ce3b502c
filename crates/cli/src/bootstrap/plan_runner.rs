//! The process that runs a plan, as claims see it: its OS lock on this node decides, else its lease.

use cleveragents_domain::id::PlanId;
use cleveragents_engine::runs::OwnerActivity;
use cleveragents_ports::Holder;
use cleveragents_ports::StoreError;

use super::AppContext;

/// A process that has a plan's run and may be alive.
#[derive(Debug)]
pub struct PlanRunner {
    pub run: Holder,
    /// Known of processes of this data directory.
    pub pid: Option<u32>,
    /// Whether its lease has run out although it is alive, so that it may be stopped.
    pub is_silent: bool,
}

impl AppContext<'_> {
    /// The process that runs the plan; nothing if it is dead or its lease is all that is known and
    /// has run out.
    pub fn plan_runner(&self, plan: PlanId) -> Result<Option<PlanRunner>, StoreError> {
        let found = self
            .store
            .read(move |tx| Ok::<_, StoreError>((tx.now()?, tx.run_of(plan)?)));
        let (now, Some(run)) = self.block_on(found)? else {
            return Ok(None);
        };
        let runs = self.runs();
        let is_silent = match runs.activity(&run, now) {
            OwnerActivity::Gone => return Ok(None),
            OwnerActivity::Silent => true,
            OwnerActivity::Working => false,
        };
        Ok(Some(PlanRunner {
            pid: runs.process_id(&run),
            run,
            is_silent,
        }))
    }
}

impl PlanRunner {
    /// Names the process, or its owner id and node where the process is not known.
    pub fn describe(&self) -> String {
        match self.pid {
            Some(pid) => format!("process {pid}"),
            None => format!("{} on node {}", self.run.owner, self.run.node),
        }
    }

    /// The command that lets a stopped process go on.
    pub fn continue_command(&self) -> Option<String> {
        let pid = self.pid.filter(|_| self.is_silent)?;
        Some(format!("kill -CONT {pid}"))
    }
}
