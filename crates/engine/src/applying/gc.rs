//! Removes data kept for applies that will not be unapplied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord, ApplyState};
use cleveragents_domain::id::{ApplyId, PlanId};
use cleveragents_domain::{Phase, Plan, Timestamp};
use tokio::task::spawn_blocking;

use super::error::Result;
use crate::lifecycle::PlanLifecycle;
use crate::runs::{ClaimOutcome, RunService};
use crate::sandboxes::{GcMode, GcRequest, GcVerdict, UNKNOWN_GRACE};
use cleveragents_ports::targets::ApplyTargets;
use cleveragents_ports::{Slots, StoreError, StoreHandle, Transaction};

/// Minimum time during which an apply can be reversed.
pub const UNAPPLY_WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// Outcome for one resource of an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweptApply {
    pub id: ApplyId,
    /// `None` if the plan was deleted.
    pub plan: Option<PlanId>,
    pub verdict: GcVerdict,
}

/// Removes the data of applies.
#[derive(Debug, Clone)]
pub struct ApplyGarbageCollector {
    pub store: StoreHandle,
    pub lifecycle: PlanLifecycle,
    pub runs: RunService,
    pub targets: Arc<dyn ApplyTargets>,
}

struct PlanApplies {
    plan: Plan,
    applies: Vec<ApplyRecord>,
}

impl ApplyGarbageCollector {
    /// Removes the data of every apply on this machine that is finished and cannot, or need not, be
    /// reversed.
    pub async fn collect(&self, request: &GcRequest) -> Result<Vec<SweptApply>> {
        // List folders before reading records: a record is always written before its folder, so no
        // listed folder lacks one.
        let targets = Arc::clone(&self.targets);
        let kept = spawn_blocking(move || targets.list()).await??;
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let (now, families) = self.store.read(load_plan_applies).await?;
        let mut swept = Vec::with_capacity(kept.len());
        for id in kept {
            let family = families.iter().find(|it| it.record_of(id).is_some());
            let verdict = match family {
                Some(family) => family.classify(id, now, request.older_than),
                None => classify_unknown(id, now),
            };
            let plan = family.map(|it| it.plan.identity.plan_id);
            let verdict = match (request.mode, verdict) {
                (GcMode::Remove, GcVerdict::Remove(why)) => self.forget(id, plan, why).await?,
                (_, verdict) => verdict,
            };
            swept.push(SweptApply { id, plan, verdict });
        }
        Ok(swept)
    }

    /// Removes the data of one apply while holding the plan's run.
    async fn forget(&self, id: ApplyId, plan: Option<PlanId>, why: String) -> Result<GcVerdict> {
        let run = match plan {
            None => None,
            Some(plan) => {
                let claim = self.runs.claim(plan, Phase::Apply, Slots::Shared);
                match claim.await? {
                    ClaimOutcome::Won(run) => Some(run),
                    _ => return Ok(GcVerdict::Keep("its plan is running".to_owned())),
                }
            }
        };
        let targets = Arc::clone(&self.targets);
        let forgotten = spawn_blocking(move || targets.forget(id)).await?;
        if let Some(run) = run {
            self.lifecycle.release(run).await?;
        }
        Ok(match forgotten {
            Ok(()) => GcVerdict::Remove(why),
            Err(error) => GcVerdict::Failed(error.to_string()),
        })
    }
}

fn load_plan_applies(
    tx: &mut dyn Transaction,
) -> Result<(Timestamp, Vec<PlanApplies>), StoreError> {
    let sandboxes = tx.list_sandboxes(&[])?;
    let plans: BTreeSet<PlanId> = sandboxes.iter().map(|it| it.plan_id).collect();
    let mut families = BTreeMap::new();
    for id in plans {
        let applies = tx.applies_of(id)?;
        if !applies.is_empty() {
            let plan = tx.plan(id)?;
            families.insert(id, PlanApplies { plan, applies });
        }
    }
    Ok((tx.now()?, families.into_values().collect()))
}

fn classify_unknown(id: ApplyId, now: Timestamp) -> GcVerdict {
    if now.since(id.created_at()) < UNKNOWN_GRACE {
        GcVerdict::Keep("it has no record, and it is younger than a day".to_owned())
    } else {
        GcVerdict::Remove("it has no record".to_owned())
    }
}

impl PlanApplies {
    fn record_of(&self, id: ApplyId) -> Option<&ApplyRecord> {
        let has = |it: &&ApplyRecord| it.resources.iter().any(|part| part.id == id);
        self.applies.iter().find(has)
    }

    fn classify(&self, id: ApplyId, now: Timestamp, older_than: Duration) -> GcVerdict {
        let Some(record) = self.record_of(id) else {
            return classify_unknown(id, now);
        };
        let remove = |why: &str| GcVerdict::Remove(why.to_owned());
        match (record.state, record.direction) {
            (ApplyState::Aborted, _) => return remove("it was not applied"),
            (ApplyState::Done, ApplyDirection::Unapply) => return remove("it is done"),
            (ApplyState::Done, ApplyDirection::Apply) => {}
            (state, _) => return GcVerdict::Keep(format!("it is {state}")),
        }
        let is_back = |it: &ApplyRecord| {
            it.number > record.number
                && (it.direction, it.state) == (ApplyDirection::Unapply, ApplyState::Done)
        };
        if self.applies.iter().any(is_back) {
            return remove("it was undone");
        }
        let finished = self.plan.timestamps.finished_at.unwrap_or(now);
        if now.since(finished) < older_than.max(UNAPPLY_WINDOW) {
            GcVerdict::Keep("it can still be undone".to_owned())
        } else {
            remove("it was applied long ago")
        }
    }
}
