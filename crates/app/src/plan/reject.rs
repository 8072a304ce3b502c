//! `plan.reject`

use cleveragents_api::plan::reject::{RejectedChange, RejectedPart};
use cleveragents_api::plan::rollback::UndoCheckpoint;
use cleveragents_api::plan::{PlanDiff, PlanReject, PlanRollback, PlanSummary};
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::execution::{RejectOutcome, Rejection};

use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::failure::RequestError;
use crate::plan::abandon::abandon_apply;
use crate::plan::find::find_plan;

impl Handler<PlanReject> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanReject,
        caller: &Caller,
    ) -> Result<Reply<RejectedChange>, RequestError> {
        let (path, hunk) = split_hunk(&request.part);
        let plan = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        abandon_apply(&self.services, plan, caller).await?;
        let executor = self.services.executor(caller)?;
        let rejection = Rejection {
            plan,
            resource: request.resource,
            path: path.to_owned(),
            hunk,
            why: self.services.mask_secrets(request.why.trim())?,
            actor: caller.who.clone(),
        };
        let outcome = executor.reject(&rejection).await?;
        Ok(reply(outcome, rejection.why))
    }
}

fn reply(outcome: RejectOutcome, why: String) -> Reply<RejectedChange> {
    let id = outcome.plan.identity.plan_id;
    let failures = outcome.validation.required_failures();
    let passed = outcome.validation.permits_apply();
    let number = outcome.checkpoint.number;
    let answer = RejectedChange {
        plan: PlanSummary::from(&outcome.plan),
        rejected: RejectedPart {
            path: outcome.path,
            hunk: outcome.hunk,
            resource: outcome.resource,
            why,
            paths_changed: outcome.changes,
        },
        validation: outcome.validation,
        undo: UndoCheckpoint {
            checkpoint: outcome.checkpoint.id,
            number,
        },
    };
    let reply = Reply::new(answer).info("Rejected");
    let reply = if passed {
        reply
    } else {
        reply.warn(format!("required validations now fail: {failures}"))
    };
    reply
        .hint(NextStep::send(&PlanDiff {
            plan: id.into(),
            patch: false,
            files: Vec::new(),
            resource: None,
        }))
        .hint(NextStep::send(&PlanRollback {
            plan: id.into(),
            checkpoint: number.to_string(),
        }))
}

/// Splits `FILE:HUNK`. A number too large for any hunk still counts as one.
fn split_hunk(part: &str) -> (&str, Option<u32>) {
    match part.rsplit_once(':') {
        Some((path, number))
            if !path.is_empty()
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (path, Some(number.parse().unwrap_or(u32::MAX)))
        }
        _ => (part, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_the_last_colon_is_a_hunk() {
        assert_eq!(split_hunk("a.txt"), ("a.txt", None));
        assert_eq!(split_hunk("a.txt:2"), ("a.txt", Some(2)));
        assert_eq!(split_hunk("a:b:03"), ("a:b", Some(3)));
        assert_eq!(split_hunk("a:b"), ("a:b", None));
        assert_eq!(split_hunk("a:"), ("a:", None));
        assert_eq!(split_hunk(":1"), (":1", None));
        assert_eq!(split_hunk("a:99999999999"), ("a", Some(u32::MAX)));
    }
}
