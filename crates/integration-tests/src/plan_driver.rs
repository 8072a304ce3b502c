//! Moves plans through their phases with the engine's services, as the owner of their runs.
//!
//! Fixtures and examples use it to bring a plan to a state without an actor that works.

#![expect(
    clippy::expect_used,
    reason = "a fixture that cannot be made ends the test"
)]

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, Plan, Resource};
use cleveragents_engine::lifecycle::{PlanLifecycle, PreflightProbe};
use cleveragents_engine::runs::{ClaimOutcome, RunLease, RunService};
use cleveragents_ports::Slots;

/// A preflight probe that finds everything it asks for.
#[derive(Debug)]
pub struct PassingProbe;

impl PreflightProbe for PassingProbe {
    fn check_actor(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn check_tool(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn check_readable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn check_sandbox(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn check_checkpoints(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }
}

/// Claims the run of a plan that has no owner.
///
/// # Panics
///
/// If the claim is not won.
pub async fn claim_run(runs: &RunService, plan: PlanId, phase: Phase) -> RunLease {
    let claimed = runs.claim(plan, phase, Slots::Shared).await;
    match claimed.expect("the claim is answered") {
        ClaimOutcome::Won(run) => run,
        other => panic!("{other:?} instead of a lease"),
    }
}

/// Starts the plan's phase.
///
/// # Panics
///
/// If the move is refused.
pub async fn start_phase(lifecycle: &PlanLifecycle, run: &RunLease) -> Plan {
    let started = lifecycle.as_owner(run).start(&PassingProbe).await;
    started.expect("the phase can be started")
}

/// Moves a plan from `strategize/processing` to `execute/processing`.
///
/// # Panics
///
/// If a move is refused.
pub async fn advance_to_execute(lifecycle: &PlanLifecycle, run: &RunLease) -> Plan {
    let complete = lifecycle.as_owner(run).complete().await;
    complete.expect("the phase can be completed");
    let advanced = lifecycle.as_owner(run).advance(Phase::Execute).await;
    advanced.expect("the plan can be advanced");
    start_phase(lifecycle, run).await
}
