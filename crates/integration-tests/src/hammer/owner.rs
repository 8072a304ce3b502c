//! A process that owns a run and writes as its owner on request.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, StreamId};
use cleveragents_engine::runs::{ClaimOutcome, RunLease, RunService};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Result, Slots, StoreError};

use super::{HammerArguments, print_line, read_line, runtime};
use crate::samples::event;
use crate::test_database::new_operation;

/// Claims `--plan`, then runs `write` and `beat` on request.
pub(super) fn claim(arguments: &HammerArguments) -> Result<()> {
    let plan: PlanId = arguments.value("plan")?;
    let opened = arguments.open()?;
    let service = RunService::new(
        opened.store.clone(),
        Arc::new(SystemIds),
        opened.presence.clone(),
        opened.owner,
    );
    let runtime = runtime()?;
    print_line("ready");
    let lease = match runtime.block_on(service.claim(plan, Phase::Execute, Slots::Shared))? {
        ClaimOutcome::Won(lease) => lease,
        other => return Err(StoreError::internal(format!("not claimed: {other:?}"))),
    };
    let won = lease.lease();
    let expires_at = won.expires_at.as_micros();
    print_line(&format!("claimed {} {} {expires_at}", won.epoch, won.owner));
    while let Some(order) = read_line() {
        let done = match order.as_str() {
            "write" => runtime.block_on(write(&lease)),
            "beat" => runtime.block_on(lease.heartbeat()).map(|_| ()),
            other => Err(StoreError::internal(format!("what is `{other}`?"))),
        };
        match done {
            Ok(()) => print_line("written"),
            Err(error @ StoreError::LeaseLost { .. }) => print_line(&format!("lost {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn write(lease: &RunLease) -> Result<()> {
    let plan = lease.lease().plan;
    let change = move |tx: &mut dyn cleveragents_ports::Transaction| {
        tx.append(StreamId::Plan(plan), &[event(1)])?;
        Ok::<_, StoreError>(())
    };
    lease.write(new_operation("hammer.owner"), change).await
}
