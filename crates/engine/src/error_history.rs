//! Errors of plans and their recovery.
//!
//! Recording an error is one transaction: the history row, the journal event and the recovery as a
//! decision. There is no history object to create, so two callers cannot race to create it.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{DecisionCreated, ErrorRecorded};
use cleveragents_domain::id::{DecisionId, ErrorId, PlanId};
use cleveragents_domain::{
    Decision, DecisionType, ErrorCategory, ErrorRecord, EventKind, NewDecision, NewError,
    PayloadOutcome, Plan, RecoveryAction, RequiredRollback, StreamId,
};
use serde::{Deserialize, Serialize};

use crate::journal::new_event;
use cleveragents_ports::{Ids, Result, StoreError, StoreHandle, StoreOperation, Transaction};

/// Number of errors read per page.
const PAGE: u32 = 500;

/// A reported error. Phase and attempt are taken from the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewErrorRecord {
    pub category: ErrorCategory,
    pub message: String,
    pub step: Option<u32>,
    /// The chain of causes, the direct cause first.
    pub cause_chain: Vec<String>,
}

impl NewErrorRecord {
    /// An error without a step and without further causes.
    pub fn new(category: ErrorCategory, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            step: None,
            cause_chain: Vec::new(),
        }
    }
}

/// Whether a step may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepRetry {
    /// This many retries are left.
    Yes { left: u32 },
    /// The profile's limit is reached.
    Exhausted { limit: u32 },
    /// A retry would not help: the newest error is not transient.
    NotTransient,
}

/// The error histories of plans.
#[derive(Debug, Clone)]
pub struct ErrorRecovery {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ErrorRecovery {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Records an error of the plan; an identical one is counted.
    pub async fn record(
        &self,
        plan: PlanId,
        error: NewErrorRecord,
        actor: &str,
    ) -> Result<ErrorRecord> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(
                StoreOperation::new(&*self.ids, "plan.record-error"),
                move |tx| record_error(tx, &*ids, plan, &error, &actor),
            )
            .await
    }

    /// Returns the plan's errors in the order in which they first happened.
    pub async fn history(&self, plan: PlanId) -> Result<Vec<ErrorRecord>> {
        self.store
            .read(move |tx| {
                tx.plan(plan)?;
                load_history(tx, plan)
            })
            .await
    }

    /// Returns whether the profile allows a retry of `step`.
    pub async fn should_retry(&self, plan: PlanId, step: Option<u32>) -> Result<StepRetry> {
        self.store
            .read(move |tx| {
                let plan = tx.plan(plan)?;
                let limit = plan.brief.automation_profile.limits.max_retries_per_step;
                let failures = recent_failures(tx, &plan, step, limit)?;
                Ok(decide_retry(&failures, limit))
            })
            .await
    }
}

/// Records an error inside a transaction that writes more.
pub fn record_error(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: PlanId,
    error: &NewErrorRecord,
    actor: &str,
) -> Result<ErrorRecord> {
    let rollback = None;
    let plan_error = NewPlanError {
        plan,
        error,
        rollback,
    };
    record_plan_error(tx, ids, &plan_error, actor)
}

/// An error of a plan, with the rollback that alone helps against it, if the usual recovery does
/// not.
#[derive(Debug)]
pub(crate) struct NewPlanError<'a> {
    pub(crate) plan: PlanId,
    pub(crate) error: &'a NewErrorRecord,
    pub(crate) rollback: Option<RequiredRollback>,
}

/// Records an error that may need a rollback.
pub(crate) fn record_plan_error(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan_error: &NewPlanError<'_>,
    actor: &str,
) -> Result<ErrorRecord> {
    let NewPlanError {
        plan,
        error,
        rollback,
    } = plan_error;
    let plan = tx.plan_for_update(*plan)?;
    let now = tx.now()?;
    let new = NewError {
        plan_id: plan.identity.plan_id,
        category: error.category,
        message: error.message.clone(),
        phase: plan.position.phase(),
        step: error.step,
        attempt: plan.attempt,
        cause_chain: error.cause_chain.clone(),
    };
    let mut record = ErrorRecord::new(new, ErrorId::new(ids.next()), now);
    if let Some(rollback) = rollback {
        record.recovery = RecoveryAction::Retry;
        record.rollback = Some(rollback.clone());
    }
    let record = tx.record_error(&record)?;
    let mut events = vec![new_event(actor, &ErrorRecorded(record.clone()))?];
    if record.occurrences == 1 {
        let mut decision = recovery_decision(&plan, &record, DecisionId::new(ids.next()));
        decision.sequence_number = tx.insert_decision(&decision)?;
        events.push(new_event(actor, &DecisionCreated(decision))?);
    }
    tx.append(StreamId::Plan(plan.identity.plan_id), &events)?;
    Ok(record)
}

pub(crate) fn load_history(tx: &mut dyn Transaction, plan: PlanId) -> Result<Vec<ErrorRecord>> {
    let mut errors: Vec<ErrorRecord> = Vec::new();
    loop {
        let after = errors.last().and_then(|error| error.sequence).unwrap_or(0);
        let page = tx.errors_of(plan, after, PAGE)?;
        if page.is_empty() {
            return Ok(errors);
        }
        errors.extend(page);
    }
}

/// Returns the error categories at this step of the phase and attempt, newest first, since the plan
/// was last reverted. Reads the journal, because the history merges identical errors of all
/// attempts. Stops reading once the limit is exceeded.
fn recent_failures(
    tx: &mut dyn Transaction,
    plan: &Plan,
    step: Option<u32>,
    limit: u32,
) -> Result<Vec<ErrorCategory>> {
    const KINDS: [EventKind; 2] = [EventKind::ErrorRecorded, EventKind::PlanReverted];
    let stream = StreamId::Plan(plan.identity.plan_id);
    let here = (plan.position.phase(), step, plan.attempt);
    let mut found = Vec::new();
    let mut before = i64::MAX;
    loop {
        let page = tx.newest_events(stream, &KINDS, before, PAGE)?;
        let Some(oldest) = page.last() else {
            return Ok(found);
        };
        before = oldest.stream_seq;
        for event in &page {
            if event.kind != EventKind::ErrorRecorded {
                return Ok(found);
            }
            let read = event.read::<ErrorRecorded>();
            match read
                .map(PayloadOutcome::known)
                .map_err(StoreError::internal)?
            {
                Some(ErrorRecorded(error)) => {
                    if (error.phase, error.step, error.attempt) == here {
                        found.push(error.category);
                    }
                }
                // An erased error cannot be attributed to a step, so it counts, as one that is not
                // transient.
                None => found.push(ErrorCategory::Internal),
            }
            if found.len() > limit as usize {
                return Ok(found);
            }
        }
    }
}

fn decide_retry(failures: &[ErrorCategory], limit: u32) -> StepRetry {
    let tried = u32::try_from(failures.len()).unwrap_or(u32::MAX);
    match failures.first() {
        None => StepRetry::Yes { left: limit },
        Some(newest) if !newest.is_transient() => StepRetry::NotTransient,
        // The first try is not a retry, so as many errors as the limit leave one more.
        Some(_) if tried <= limit => StepRetry::Yes {
            left: limit - tried + 1,
        },
        Some(_) => StepRetry::Exhausted { limit },
    }
}

fn recovery_decision(plan: &Plan, record: &ErrorRecord, id: DecisionId) -> Decision {
    let new = NewDecision {
        plan_id: plan.identity.plan_id,
        parent: plan.decision_root_id,
        decision_type: DecisionType::ErrorRecovery,
        phase: record.phase,
        question: format!("What to do about: {}", record.message),
        chosen: record.recovery.to_string(),
        rationale: format!("The error is of the category {}.", record.category),
    };
    let (first, second) = record.category.recoveries();
    let considered = match record.rollback {
        None => vec![first.to_string(), second.to_string()],
        Some(_) => vec![record.recovery.to_string()],
    };
    Decision {
        alternatives_considered: considered,
        ..Decision::new(new, id, record.at)
    }
}
