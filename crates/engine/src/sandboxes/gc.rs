//! Removes sandboxes that are no longer needed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::event::payloads::{SandboxRemoved, SandboxStateChanged};
use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{PlanState, ResourceType, StreamId};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::classify::classify_sandbox;
use super::{Result, SandboxIdentity, SandboxService, SandboxServiceError, UNKNOWN_GRACE};
use crate::journal::new_event;
use crate::lifecycle::{evict, live_run};
use cleveragents_ports::sandbox::{SandboxError, SandboxMarker};
use cleveragents_ports::{StoreError, Transaction};

/// A request to collect garbage.
#[derive(Debug, Clone)]
pub struct GcRequest {
    pub mode: GcMode,
    /// Minimum time since a plan finished.
    pub older_than: Duration,
    /// The acting user, for the journal.
    pub actor: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcMode {
    Remove,
    /// Only report what would be removed.
    DryRun,
}

/// Outcome for one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweptSandbox {
    pub sandbox: SandboxIdentity,
    pub verdict: GcVerdict,
}

/// The decision about a sandbox, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GcVerdict {
    /// It is removed, or would be.
    Remove(String),
    Keep(String),
    /// The removal failed; the next gc retries it.
    Failed(String),
}

/// A decision with the row it is based on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct GcDecision {
    verdict: GcVerdict,
    record: SandboxRecord,
    publication: Publication,
}

/// Whether the published commit of a plan is still useful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Publication {
    Stays,
    Goes,
}

impl SandboxService {
    /// Removes every sandbox that is no longer needed and returns the outcome for each that has a
    /// folder.
    pub async fn gc(&self, request: &GcRequest) -> Result<Vec<SweptSandbox>> {
        // List folders before reading records: a record is always written before its folder.
        let folders = self.folders().await?;
        let records = self.records().await?;
        let known: BTreeSet<SandboxId> = records.iter().map(|it| it.id).collect();
        let mut swept = Vec::new();
        for record in records {
            if record.folder == FolderState::Gone && !folders.contains(&record.id) {
                continue;
            }
            let sandbox = SandboxIdentity {
                id: record.id,
                plan: Some(record.plan_id),
                resource: Some(record.resource_name.clone()),
            };
            let verdict = match self.sweep_if_local(&record, request).await {
                Err(SandboxServiceError::Sandbox(error)) => GcVerdict::Failed(error.to_string()),
                other => other?,
            };
            swept.push(SweptSandbox { sandbox, verdict });
        }
        for id in folders.difference(&known) {
            swept.push(self.sweep_unknown(*id, request).await?);
        }
        Ok(swept)
    }

    /// Skips sandboxes of another machine: only that machine can tell whether they may be removed.
    async fn sweep_if_local(
        &self,
        record: &SandboxRecord,
        request: &GcRequest,
    ) -> Result<GcVerdict> {
        match record.other_node(&self.node) {
            Some(node) => Ok(GcVerdict::Keep(format!(
                "it is on another machine, node {node}"
            ))),
            None => self.sweep(record, request).await,
        }
    }

    /// Decides about one recorded sandbox, and removes it if it is no longer needed.
    async fn sweep(&self, record: &SandboxRecord, request: &GcRequest) -> Result<GcVerdict> {
        let decision = match request.mode {
            GcMode::DryRun => self.preview_removal(record, request).await?,
            GcMode::Remove => self.record_removal_intent(record, request).await?,
        };
        if request.mode == GcMode::Remove && matches!(decision.verdict, GcVerdict::Remove(_)) {
            self.remove(&decision).await?;
            self.confirm_removal(decision.record.id, &request.actor)
                .await?;
        }
        Ok(decision.verdict)
    }

    async fn preview_removal(
        &self,
        record: &SandboxRecord,
        request: &GcRequest,
    ) -> Result<GcDecision> {
        let known = self.lifecycle.proven_owner(record.plan_id).await?;
        let (id, plan, older_than) = (record.id, record.plan_id, request.older_than);
        self.store
            .read(move |tx| {
                let run = tx.run_of(plan)?;
                let runs = live_run(tx, run.as_ref(), known)?;
                decide(tx, id, runs.as_ref(), older_than)
            })
            .await
    }

    /// Records the intent to remove the sandbox, in the transaction that checks that the plan has
    /// no live owner.
    async fn record_removal_intent(
        &self,
        record: &SandboxRecord,
        request: &GcRequest,
    ) -> Result<GcDecision> {
        let known = self.lifecycle.proven_owner(record.plan_id).await?;
        let (id, plan) = (record.id, record.plan_id);
        let request = request.clone();
        self.store
            .write(self.operation("sandbox.start-removal"), move |tx| {
                let run = tx.run_for_update(plan)?;
                let runs = live_run(tx, run.as_ref(), known)?;
                let mut decision = decide(tx, id, runs.as_ref(), request.older_than)?;
                if let GcVerdict::Remove(_) = decision.verdict {
                    decision.record = mark_leaving(tx, decision.record, &request.actor)?;
                    evict(tx, run.as_ref(), &request.actor)?;
                }
                Ok::<_, SandboxServiceError>(decision)
            })
            .await
    }

    async fn remove(&self, decision: &GcDecision) -> Result<()> {
        let (sandboxes, decision) = (Arc::clone(&self.sandboxes), decision.clone());
        spawn_blocking(move || {
            let record = &decision.record;
            let published = record.resource_type == ResourceType::GitCheckout;
            if published && decision.publication == Publication::Goes {
                sandboxes.withdraw(&record.resource_path, record.plan_id)?;
            }
            sandboxes.discard(record.id)?;
            Ok::<_, SandboxServiceError>(())
        })
        .await?
    }

    async fn confirm_removal(&self, id: SandboxId, actor: &str) -> Result<()> {
        let actor = actor.to_owned();
        let confirmed = self
            .store
            .write(self.operation("sandbox.confirm-removal"), move |tx| {
                let record = tx.sandbox(id)?;
                if record.folder == FolderState::Gone {
                    return Ok(());
                }
                let gone = SandboxRecord {
                    folder: FolderState::Gone,
                    updated_at: tx.now()?,
                    ..record
                };
                tx.update_sandbox(&gone)?;
                let event = new_event(&actor, &SandboxRemoved { sandbox_id: id })?;
                tx.append(StreamId::Plan(gone.plan_id), &[event])?;
                Ok::<_, StoreError>(())
            })
            .await;
        match confirmed {
            // The plan and its sandbox rows were deleted meanwhile.
            Err(StoreError::NotFound { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Handles a folder without a record: of a deleted plan, or of a tool that was tried out.
    async fn sweep_unknown(&self, id: SandboxId, request: &GcRequest) -> Result<SweptSandbox> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let mark = spawn_blocking(move || sandboxes.read_marker(id)).await?;
        let sandbox = SandboxIdentity {
            id,
            plan: mark
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .map(|it| it.plan),
            resource: None,
        };
        let mark = match mark {
            Ok(mark) => mark,
            Err(error) => {
                let verdict = GcVerdict::Keep(error.to_string());
                return Ok(SweptSandbox { sandbox, verdict });
            }
        };
        let verdict = self.classify_unknown(id, mark.as_ref()).await?;
        let verdict = match (request.mode, verdict) {
            (GcMode::Remove, GcVerdict::Remove(why)) => {
                match self.remove_unknown(id, mark).await? {
                    Ok(()) => GcVerdict::Remove(why),
                    Err(error) => GcVerdict::Failed(error.to_string()),
                }
            }
            (_, verdict) => verdict,
        };
        Ok(SweptSandbox { sandbox, verdict })
    }

    async fn classify_unknown(
        &self,
        id: SandboxId,
        mark: Option<&SandboxMarker>,
    ) -> Result<GcVerdict> {
        let plan = mark.map(|it| it.plan);
        let (now, known) = self
            .store
            .read(move |tx| {
                let known = match plan.map(|plan| tx.plan(plan)) {
                    None | Some(Err(StoreError::NotFound { .. })) => false,
                    Some(Err(error)) => return Err(error),
                    Some(Ok(_)) => true,
                };
                Ok::<_, StoreError>((tx.now()?, known))
            })
            .await?;
        if known {
            let reason = "it has no record, but its plan exists";
            return Ok(GcVerdict::Keep(reason.to_owned()));
        }
        Ok(if now.since(id.created_at()) < UNKNOWN_GRACE {
            GcVerdict::Keep("it has no record, and it is younger than a day".to_owned())
        } else {
            GcVerdict::Remove("it has no record, and its plan is gone".to_owned())
        })
    }

    async fn remove_unknown(
        &self,
        id: SandboxId,
        mark: Option<SandboxMarker>,
    ) -> Result<std::result::Result<(), SandboxError>> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let removed = spawn_blocking(move || {
            if let Some(mark) = mark.filter(|it| it.resource_type == ResourceType::GitCheckout) {
                sandboxes.withdraw(&mark.resource, mark.plan)?;
            }
            sandboxes.discard(id).map(drop)
        });
        Ok(removed.await?)
    }
}

/// Decides about the sandbox in this transaction.
fn decide(
    tx: &mut dyn Transaction,
    id: SandboxId,
    runs: Option<&cleveragents_ports::Holder>,
    older_than: Duration,
) -> Result<GcDecision> {
    let record = tx.sandbox(id)?;
    let plan = tx.plan(record.plan_id)?;
    let now = tx.now()?;
    Ok(GcDecision {
        verdict: classify_sandbox(&record, &plan, runs, now, older_than),
        publication: match plan.position.state() {
            PlanState::Applied | PlanState::Cancelled => Publication::Goes,
            _ => Publication::Stays,
        },
        record,
    })
}

/// Records that the folder is being removed. A partly created sandbox becomes `Discarded`, so that
/// its plan creates a new one.
fn mark_leaving(
    tx: &mut dyn Transaction,
    record: SandboxRecord,
    actor: &str,
) -> Result<SandboxRecord> {
    if record.folder != FolderState::Kept {
        return Ok(record);
    }
    let from = record.state;
    let mut leaving = SandboxRecord {
        folder: FolderState::Leaving,
        state: match from {
            SandboxState::Creating => SandboxState::Discarded,
            other => other,
        },
        updated_at: tx.now()?,
        ..record
    };
    leaving.version = tx.update_sandbox(&leaving)?;
    let payload = SandboxStateChanged {
        sandbox_id: leaving.id,
        from,
        to: leaving.state,
        folder: Some(leaving.folder),
        tree: leaving.tree.clone(),
        warnings: None,
    };
    let event = new_event(actor, &payload)?;
    tx.append(StreamId::Plan(leaving.plan_id), &[event])?;
    Ok(leaving)
}
