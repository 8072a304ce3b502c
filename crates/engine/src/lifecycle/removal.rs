//! Deletes a plan's rows, or purges payloads of its journal. The journal's hash chain stays, so it
//! can be verified that the events happened.

use cleveragents_domain::event::payloads::PlanDeleted;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, Plan, StreamId};
use serde::{Deserialize, Serialize};

use super::PlanLifecycle;
use super::commands::{evict, hold_unowned};
use super::error::{LifecycleError, Result};
use crate::journal::new_event;
use crate::journal::purge::{PurgeRequest, erase};
use cleveragents_ports::{Entity, StoreError, Transaction};

/// Number of events read per page.
const PAGE: u32 = 1000;

/// Selects the events of a plan whose payloads are erased, with the reason.
#[derive(Debug, Clone)]
pub struct PlanPurgeRequest {
    pub plan: PlanId,
    /// First sequence number of the range. The range is unbounded where `first` or `last` is
    /// `None`.
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub reason: String,
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeOutcome {
    /// Number of payloads erased by this call.
    pub payloads: u64,
    /// Hash of the journal's newest event.
    pub head_hash: String,
}

impl PlanLifecycle {
    /// Deletes a finished plan with its decisions, errors, messages and invariants. Its journal
    /// stays and can be purged. Fails if the plan is not finished or has a live owner.
    pub async fn delete(&self, plan: PlanId, actor: &str) -> Result<Plan> {
        let actor = actor.to_owned();
        let known = self.proven_owner(plan).await?;
        self.store
            .write(self.operation("plan.delete"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let found = tx.plan_for_update(plan)?;
                if !found.position.is_terminal() {
                    return Err(LifecycleError::NotFinished {
                        plan: Box::new(found),
                    });
                }
                tx.delete_plan(&found)?;
                evict(tx, run.as_ref(), &actor)?;
                let deleted = PlanDeleted {
                    name: found.name.clone(),
                    action: found.brief.action_name.clone(),
                    phase: found.position.phase(),
                    state: found.position.state(),
                };
                tx.append(StreamId::Plan(plan), &[new_event(&actor, &deleted)?])?;
                Ok(found)
            })
            .await
    }

    /// Erases payloads of a plan's journal and records it; the hash chain still verifies. The plan
    /// may be deleted, but must not have a live owner.
    pub async fn purge(&self, erasure: PlanPurgeRequest) -> Result<PurgeOutcome> {
        let known = self.proven_owner(erasure.plan).await?;
        self.store
            .write(self.operation("plan.purge"), move |tx| {
                let run = hold_unowned(tx, erasure.plan, known)?;
                // A deleted plan still has a journal, so its absence is no error.
                hold_plan_if_exists(tx, erasure.plan)?;
                // A suspended owner must not append payloads to the range that is erased.
                evict(tx, run.as_ref(), &erasure.actor)?;
                let stream = StreamId::Plan(erasure.plan);
                let places = erasable_places(tx, &erasure)?;
                if places.is_empty() {
                    let head = tx.head(stream)?;
                    return match head.stream_seq {
                        // No event at all means that the plan never existed.
                        0 => Err(missing_journal_error(erasure.plan).into()),
                        _ => Ok(PurgeOutcome {
                            payloads: 0,
                            head_hash: head.hash,
                        }),
                    };
                }
                let payloads = places.len() as u64;
                let request = PurgeRequest {
                    stream,
                    places,
                    reason: erasure.reason.clone(),
                    actor: erasure.actor.clone(),
                };
                let head = erase(tx, &request)?;
                Ok(PurgeOutcome {
                    payloads,
                    head_hash: head.hash,
                })
            })
            .await
    }
}

fn hold_plan_if_exists(tx: &mut dyn Transaction, plan: PlanId) -> Result<()> {
    match tx.plan_for_update(plan) {
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the sequence numbers in the range that still have a payload. Records of earlier purges
/// are kept.
fn erasable_places(tx: &mut dyn Transaction, erasure: &PlanPurgeRequest) -> Result<Vec<i64>> {
    let stream = StreamId::Plan(erasure.plan);
    let last = erasure.last.unwrap_or(i64::MAX);
    let mut after = erasure.first.map_or(0, |first| first.saturating_sub(1));
    let mut places = Vec::new();
    loop {
        let page = tx.events(stream, after, PAGE)?;
        let Some(newest) = page.last() else {
            return Ok(places);
        };
        after = newest.stream_seq;
        for event in page {
            if event.stream_seq > last {
                return Ok(places);
            }
            // The record of an earlier purge proves it, so it is never erased.
            if event.payload.is_some() && event.kind != EventKind::PayloadPurged {
                places.push(event.stream_seq);
            }
        }
    }
}

fn missing_journal_error(plan: PlanId) -> StoreError {
    StoreError::NotFound {
        entity: Entity::JournalOfPlan,
        id: plan.to_string(),
    }
}
