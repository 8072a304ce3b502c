//! Many threads that contend for the same thing at the same moment, round after round.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{ErrorCategory, Phase};
use cleveragents_engine::error_history::{ErrorRecovery, NewErrorRecord};
use cleveragents_engine::runs::{ClaimOutcome, RunService};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, LockRequest, Result, Slots, StoreError};

use super::{HammerArguments, print_line, read_line, runtime};
use crate::test_database::{OpenTestDatabase, new_operation};

/// Long enough that nothing expires during a test.
const LIFETIME: Duration = Duration::from_secs(3600);

/// For each lock the parent names, `--threads` owners try to acquire it.
pub(super) fn contend_for_locks(arguments: &HammerArguments) -> Result<()> {
    run_rounds(arguments, |opened, name| {
        let request = LockRequest {
            name: name.to_owned(),
            owner: OwnerId::new(SystemIds.next()),
            node: "hammer".to_owned(),
            ttl: LIFETIME,
            dead_holder: None,
        };
        let taken = opened.store.write(new_operation("hammer.lock"), move |tx| {
            tx.acquire_lock(&request)
        });
        match runtime()?.block_on(taken) {
            Ok(grant) => Ok(format!("won {}", grant.epoch)),
            Err(StoreError::LockHeld { owner, .. }) => Ok(format!("held {owner}")),
            Err(error) => Err(error),
        }
    })
}

/// For each plan the parent names, `--threads` owners try to claim its run.
pub(super) fn contend_for_runs(arguments: &HammerArguments) -> Result<()> {
    run_rounds(arguments, |opened, plan| {
        let plan: PlanId = plan.parse().map_err(StoreError::internal)?;
        let owner = OwnerId::new(SystemIds.next());
        let service = RunService::new(
            opened.store.clone(),
            Arc::new(SystemIds),
            opened.presence.clone(),
            owner,
        );
        match runtime()?.block_on(service.claim(plan, Phase::Execute, Slots::Shared))? {
            ClaimOutcome::Won(lease) => Ok(format!("won {}", lease.lease().epoch)),
            ClaimOutcome::Held(holder) => Ok(format!("held {}", holder.owner)),
            ClaimOutcome::NoSlot { .. } => {
                Err(StoreError::internal("a shared claim needs no slot"))
            }
        }
    })
}

/// For each plan the parent names, `--threads` callers record an error of their own and one common
/// to all. Prints the number and count of each.
pub(super) fn record_errors(arguments: &HammerArguments) -> Result<()> {
    let seed: u32 = arguments.value("seed")?;
    let numbers = AtomicU32::new(0);
    run_rounds(arguments, |opened, plan| {
        let plan: PlanId = plan.parse().map_err(StoreError::internal)?;
        let recovery = ErrorRecovery::new(opened.store.clone(), Arc::new(SystemIds));
        let own = numbers.fetch_add(1, Ordering::Relaxed);
        let mut messages = [format!("process {seed} error {own}"), "everybody's".into()];
        if own.is_multiple_of(2) {
            messages.reverse();
        }
        let runtime = runtime()?;
        let mut said = "recorded".to_owned();
        for message in messages {
            let failure = NewErrorRecord {
                category: ErrorCategory::Timeout,
                message,
                step: Some(1),
                cause_chain: Vec::new(),
            };
            let error = runtime.block_on(recovery.record(plan, failure, "hammer"))?;
            let place = error.sequence.unwrap_or_default();
            said.push_str(&format!(" {place}:{}", error.occurrences));
        }
        Ok(said)
    })
}

fn run_rounds(
    arguments: &HammerArguments,
    attempt: impl Fn(&OpenTestDatabase, &str) -> Result<String> + Sync,
) -> Result<()> {
    let threads: usize = arguments.value("threads")?;
    let opened = arguments.open()?;
    print_line("ready");
    while let Some(prize) = read_line() {
        let start = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    start.wait();
                    match attempt(&opened, &prize) {
                        Ok(line) => print_line(&line),
                        Err(error) => print_line(&format!("error {error}")),
                    }
                });
            }
        });
    }
    Ok(())
}
