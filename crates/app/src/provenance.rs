//! Handlers of requests about commits that plans made, and the lines in them.

mod blame;
mod verify_commit;

use cleveragents_api::plan::{PlanLog, PlanVerify};
use cleveragents_api::{ExitClass, FailureKind, NextStep};
use cleveragents_engine::provenance::{CommitFault, ProvenanceError, ProvenanceReader};

use crate::failure::{RequestError, excerpt};
use crate::services::Services;

fn reader(services: &Services) -> Result<ProvenanceReader, RequestError> {
    let history = services.adapters().commit_history()?;
    let results = services.results()?;
    Ok(ProvenanceReader::new(
        services.store().clone(),
        history,
        results,
    ))
}

impl From<ProvenanceError> for RequestError {
    fn from(error: ProvenanceError) -> Self {
        match error {
            ProvenanceError::Store(error) => error.into(),
            ProvenanceError::Sandbox(error) => error.into(),
            ProvenanceError::NoCommit { revision } => {
                let revision = excerpt(&revision);
                Self::new(ExitClass::NotFound, format!("`{revision}` names no commit"))
                    .hint("git log --oneline")
            }
            ProvenanceError::Fault(fault) => fault_failure(*fault),
            ProvenanceError::Internal { .. } => Self::new(ExitClass::Error, error.to_string())
                .kind(FailureKind::Internal)
                .hint("agents diagnostics"),
        }
    }
}

fn fault_failure(fault: CommitFault) -> RequestError {
    let failure = RequestError::new(ExitClass::Error, "the commit does not verify")
        .kind(FailureKind::CommitNotVerified)
        .because(fault.to_string())
        .with_facts(|facts| {
            facts.plan_id = fault.plan();
            facts.verified = Some(false);
        });
    match fault {
        CommitFault::NoTrailer => failure.hint("git log --grep '^Agents-Plan: '"),
        CommitFault::NoJournal { .. } => {
            failure.hint("repeat the command with the --data-dir of the plan")
        }
        // The journal says when the plan was deleted or its events were purged.
        CommitFault::NoRecord { plan } => failure.hint(NextStep::send(&PlanLog {
            plan: plan.into(),
            from_seq: None,
            limit: None,
        })),
        CommitFault::Chain { plan, fault } => failure
            .kind(FailureKind::Altered)
            .hint(NextStep::send(&PlanVerify {
                plan: plan.into(),
                expect: None,
            }))
            .with_facts(|facts| facts.fault = Some(fault)),
        CommitFault::NoEvent { .. } => failure,
        CommitFault::OtherCommit { recorded, .. } => {
            recorded.iter().fold(failure, |failure, it| {
                failure.hint(format!("git show {it}"))
            })
        }
    }
}
