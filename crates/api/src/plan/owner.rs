//! The process that runs a plan.

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process that has a plan's run and may be alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanOwner {
    pub owner: OwnerId,
    pub node: String,
    pub since: Timestamp,
    pub epoch: i64,
    /// Known of processes of the same data directory.
    pub pid: Option<u32>,
    /// `false` if its lease has run out although it is alive, so that it may be stopped.
    pub responds: bool,
}

impl PlanOwner {
    /// Names the process, or its owner id and node where the process is not known.
    pub fn describe(&self) -> String {
        match self.pid {
            Some(pid) => format!("process {pid}"),
            None => format!("{} on node {}", self.owner, self.node),
        }
    }
}
