//! The removal of sandboxes that nobody needs any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{EventKind, ResourceType, State, StreamId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::judge::judge;
use super::{About, Result, SandboxService, SandboxesError, UNKNOWN_GRACE};
use crate::journal::event;
use crate::lifecycle::{evict, live_run};
use crate::ports::sandbox::{Mark, SandboxError};
use crate::ports::{StoreError, Unit};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct GcAsk {
    pub mode: Mode,
    /// How long ago a plan must have finished.
    pub older_than: Duration,
    /// Who acts, for the journal.
    pub actor: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Remove,
    /// Only say what would be removed.
    Look,
}

/// What became of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    pub about: About,
    pub verdict: Verdict,
}

/// What is decided about a sandbox, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is removed, or would be.
    Remove(String),
    Keep(String),
    /// It should be gone and could not be removed; the next one tries again.
    Failed(String),
}

/// A decision with the row it was made about.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Judged {
    verdict: Verdict,
    record: SandboxRecord,
    publication: Publication,
}

/// Whether what was published of a plan is still of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Publication {
    Stays,
    Goes,
}

impl SandboxService {
    /// Removes every sandbox that nobody needs, one after the other, and says what became of each
    /// that has a folder.
    pub async fn gc(&self, ask: &GcAsk) -> Result<Vec<Swept>> {
        let folders = self.folders().await?;
        let records = self.records().await?;
        let known: BTreeSet<SandboxId> = records.iter().map(|it| it.id).collect();
        let mut swept = Vec::new();
        for record in records {
            if record.folder == FolderState::Gone && !folders.contains(&record.id) {
                continue;
            }
            let about = About {
                id: record.id,
                plan: Some(record.plan_id),
                resource: Some(record.resource_name.clone()),
            };
            let verdict = match self.sweep_here(&record, ask).await {
                Err(SandboxesError::Sandbox(error)) => Verdict::Failed(error.to_string()),
                other => other?,
            };
            swept.push(Swept { about, verdict });
        }
        for id in folders.difference(&known) {
            swept.push(self.sweep_unknown(*id, ask).await?);
        }
        Ok(swept)
    }

    /// Leaves alone what is on another machine: only from there it can be seen whether it may go.
    async fn sweep_here(&self, record: &SandboxRecord, ask: &GcAsk) -> Result<Verdict> {
        match record.elsewhere(&self.node) {
            Some(node) => Ok(Verdict::Keep(format!(
                "it is on another machine, node {node}"
            ))),
            None => self.sweep(record, ask).await,
        }
    }

    /// Decides about one sandbox on record, and removes it if nobody needs it.
    async fn sweep(&self, record: &SandboxRecord, ask: &GcAsk) -> Result<Verdict> {
        let judged = match ask.mode {
            Mode::Look => self.look(record, ask).await?,
            Mode::Remove => self.intend_removal(record, ask).await?,
        };
        if ask.mode == Mode::Remove && matches!(judged.verdict, Verdict::Remove(_)) {
            self.remove(&judged).await?;
            self.confirm_removal(judged.record.id, &ask.actor).await?;
        }
        Ok(judged.verdict)
    }

    async fn look(&self, record: &SandboxRecord, ask: &GcAsk) -> Result<Judged> {
        let known = self.lifecycle.known_owner(record.plan_id).await?;
        let (id, plan, older_than) = (record.id, record.plan_id, ask.older_than);
        self.store
            .read(move |unit| {
                let run = unit.run_of(plan)?;
                let runs = live_run(unit, run.as_ref(), known)?;
                decide(unit, id, runs.as_ref(), older_than)
            })
            .await
    }

    /// Says that the sandbox goes, in the transaction that knows that nobody works in it.
    async fn intend_removal(&self, record: &SandboxRecord, ask: &GcAsk) -> Result<Judged> {
        let known = self.lifecycle.known_owner(record.plan_id).await?;
        let (id, plan) = (record.id, record.plan_id);
        let ask = ask.clone();
        self.store
            .write(self.operation("sandbox.leave"), move |unit| {
                let run = unit.hold_run(plan)?;
                let runs = live_run(unit, run.as_ref(), known)?;
                let mut judged = decide(unit, id, runs.as_ref(), ask.older_than)?;
                if let Verdict::Remove(_) = judged.verdict {
                    judged.record = leave(unit, judged.record, &ask.actor)?;
                    evict(unit, run.as_ref(), &ask.actor)?;
                }
                Ok::<_, SandboxesError>(judged)
            })
            .await
    }

    async fn remove(&self, judged: &Judged) -> Result<()> {
        let (sandboxes, judged) = (Arc::clone(&self.sandboxes), judged.clone());
        spawn_blocking(move || {
            let record = &judged.record;
            let published = record.resource_type == ResourceType::GitCheckout;
            if published && judged.publication == Publication::Goes {
                sandboxes.withdraw(&record.resource_path, record.plan_id)?;
            }
            sandboxes.discard(record.id)?;
            Ok::<_, SandboxesError>(())
        })
        .await?
    }

    async fn confirm_removal(&self, id: SandboxId, actor: &str) -> Result<()> {
        let actor = actor.to_owned();
        let confirmed = self
            .store
            .write(self.operation("sandbox.gone"), move |unit| {
                let record = unit.sandbox(id)?;
                if record.folder == FolderState::Gone {
                    return Ok(());
                }
                let gone = SandboxRecord {
                    folder: FolderState::Gone,
                    updated_at: unit.now()?,
                    ..record
                };
                unit.update_sandbox(&gone)?;
                let told = json!({ "sandbox_id": id });
                let told = event(EventKind::SandboxRemoved, &actor, &told)?;
                unit.append(StreamId::Plan(gone.plan_id), &[told])?;
                Ok::<_, StoreError>(())
            })
            .await;
        match confirmed {
            // Its plan was deleted meanwhile, and its row with it.
            Err(StoreError::NotFound { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    /// A folder that no record tells of: of a plan that was deleted, or of a tool that was tried.
    async fn sweep_unknown(&self, id: SandboxId, ask: &GcAsk) -> Result<Swept> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let mark = spawn_blocking(move || sandboxes.mark(id)).await?;
        let about = About {
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
                let verdict = Verdict::Keep(error.to_string());
                return Ok(Swept { about, verdict });
            }
        };
        let verdict = self.judge_unknown(id, mark.as_ref()).await?;
        let verdict = match (ask.mode, verdict) {
            (Mode::Remove, Verdict::Remove(why)) => match self.remove_unknown(id, mark).await? {
                Ok(()) => Verdict::Remove(why),
                Err(error) => Verdict::Failed(error.to_string()),
            },
            (_, verdict) => verdict,
        };
        Ok(Swept { about, verdict })
    }

    async fn judge_unknown(&self, id: SandboxId, mark: Option<&Mark>) -> Result<Verdict> {
        let plan = mark.map(|it| it.plan);
        let (now, known) = self
            .store
            .read(move |unit| {
                let known = match plan.map(|plan| unit.plan(plan)) {
                    None | Some(Err(StoreError::NotFound { .. })) => false,
                    Some(Err(error)) => return Err(error),
                    Some(Ok(_)) => true,
                };
                Ok::<_, StoreError>((unit.now()?, known))
            })
            .await?;
        if known {
            let reason = "no record tells of it, but its plan is there";
            return Ok(Verdict::Keep(reason.to_owned()));
        }
        Ok(match now.since(id.made_at()) < UNKNOWN_GRACE {
            true => Verdict::Keep("no record tells of it, and it is younger than a day".to_owned()),
            false => Verdict::Remove("no record tells of it, and its plan is gone".to_owned()),
        })
    }

    async fn remove_unknown(
        &self,
        id: SandboxId,
        mark: Option<Mark>,
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

/// What is to become of the sandbox as it stands in this transaction.
fn decide(
    unit: &mut dyn Unit,
    id: SandboxId,
    runs: Option<&crate::ports::Holder>,
    older_than: Duration,
) -> Result<Judged> {
    let record = unit.sandbox(id)?;
    let plan = unit.plan(record.plan_id)?;
    let now = unit.now()?;
    Ok(Judged {
        verdict: judge(&record, &plan, runs, (now, older_than)),
        publication: match plan.position.state() {
            State::Applied | State::Cancelled => Publication::Goes,
            _ => Publication::Stays,
        },
        record,
    })
}

/// Writes that the folder goes. A sandbox that was never finished is given up altogether, so that
/// its plan makes itself another.
fn leave(unit: &mut dyn Unit, record: SandboxRecord, actor: &str) -> Result<SandboxRecord> {
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
        updated_at: unit.now()?,
        ..record
    };
    leaving.version = unit.update_sandbox(&leaving)?;
    let told = json!({
        "sandbox_id": leaving.id,
        "from": from,
        "to": leaving.state,
        "folder": leaving.folder,
        "tree": leaving.tree,
    });
    let told = event(EventKind::SandboxStateChanged, actor, &told)?;
    unit.append(StreamId::Plan(leaving.plan_id), &[told])?;
    Ok(leaving)
}
