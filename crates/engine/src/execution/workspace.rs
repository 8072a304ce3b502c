//! The sandboxes of one plan, as its owner works in them.
//!
//! Making one is intended, done and confirmed (law 9), so that any process can go on with what
//! another left. Each has a gate: calls that read share it, a call that writes has it alone.

use std::sync::Arc;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{
    AbsolutePath, Base, EventKind, NamespacedName, NewEvent, Plan, Resource, ResourcePath,
    StreamId, Timestamp, TreeId,
};
use serde_json::json;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use super::error::{Elsewhere, ExecutionError, Result};
use super::removed::{WorkAgain, is_removed, removed_error};
use super::runner::{Refusal, RefusalKind};
use crate::journal::event;
use crate::ports::sandbox::{
    NewSandbox, Sandbox, SandboxBase, Sandboxes, WORKTREE_INCLUDE, Warning,
};
use crate::ports::{Ids, Operation, Stop, StoreError, Unit};
use crate::runs::Fenced;
use crate::trust::trusted_hashes;

/// One sandbox with its gate.
#[derive(Debug)]
pub struct Seat {
    pub id: SandboxId,
    pub resource: NamespacedName,
    pub(super) gate: Arc<RwLock<Inside>>,
}

/// What is behind the gate.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) sandbox: Box<dyn Sandbox>,
    /// How the tree stood after the last confirmed call.
    pub(super) tree: TreeId,
}

/// All sandboxes of a plan.
#[derive(Debug)]
pub struct Workspace {
    pub seats: Vec<Seat>,
    pub warnings: Vec<(NamespacedName, Vec<Warning>)>,
}

/// What is needed to make and open sandboxes.
#[derive(Debug, Clone)]
pub(super) struct Workshop {
    pub(super) owner: Fenced,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) sandboxes: Arc<dyn Sandboxes>,
}

impl Workspace {
    /// Opens or makes a sandbox for every resource of the plan, in the name of its owner.
    pub async fn furnish(
        owner: Fenced,
        ids: Arc<dyn Ids>,
        sandboxes: Arc<dyn Sandboxes>,
        plan: &Plan,
    ) -> Result<Self> {
        let workshop = Workshop {
            owner,
            ids,
            sandboxes,
        };
        workshop.furnish(plan).await
    }

    /// The seat for the resource of this name, or the only one there is.
    pub fn seat(&self, resource: Option<&NamespacedName>) -> Result<&Seat, Refusal> {
        let refused = |reason| Refusal {
            kind: RefusalKind::Resource,
            reason,
        };
        let known = || {
            let names: Vec<String> = self
                .seats
                .iter()
                .map(|it| it.resource.to_string())
                .collect();
            names.join(", ")
        };
        match (resource, self.seats.as_slice()) {
            (None, [seat]) => Ok(seat),
            (None | Some(_), []) => Err(refused(
                "the plan's projects have no resources to work in".to_owned(),
            )),
            (None, _) => Err(refused(format!(
                "the plan has several resources: the call must name one of {}",
                known()
            ))),
            (Some(name), seats) => {
                let reason = || format!("the plan has no resource {name}, but {}", known());
                let seat = seats.iter().find(|it| it.resource == *name);
                seat.ok_or_else(|| refused(reason()))
            }
        }
    }
}

impl Workshop {
    /// Opens or makes a sandbox for every resource of the plan. One that was there before is set
    /// to its last confirmed tree: whatever a dead owner left half-done is gone.
    pub(super) async fn furnish(&self, plan: &Plan) -> Result<Workspace> {
        let id = plan.identity.plan_id;
        let projects = plan.brief.projects.clone();
        let (resources, records) = self
            .owner
            .store()
            .read(move |unit| {
                let mut resources: Vec<Resource> = Vec::new();
                for project in &projects {
                    for resource in unit.resources_of(project)? {
                        if !resources.iter().any(|known| known.id == resource.id) {
                            resources.push(resource);
                        }
                    }
                }
                let node = unit.run_of(id)?.map(|run| run.node);
                all_here(unit, id, &node.unwrap_or_default(), "plan execute")?;
                Ok::<_, ExecutionError>((resources, unit.sandboxes_of(id)?))
            })
            .await?;
        let mut workspace = Workspace {
            seats: Vec::with_capacity(resources.len()),
            warnings: Vec::new(),
        };
        for resource in resources {
            let known = records.iter().find(|it| it.resource_id == resource.id);
            let record = match known {
                Some(record) => record.clone(),
                None => self.intend(id, &resource, plan.brief.base).await?,
            };
            self.take_seat(record, &mut workspace).await?;
        }
        Ok(workspace)
    }

    /// Says that a sandbox will be made.
    async fn intend(&self, plan: PlanId, resource: &Resource, base: Base) -> Result<SandboxRecord> {
        let record = SandboxRecord {
            id: SandboxId::new(self.ids.next()),
            plan_id: plan,
            resource_id: resource.id,
            resource_name: resource.name.clone(),
            resource_path: resource.path.clone(),
            resource_type: resource.resource_type,
            base,
            node: None,
            state: SandboxState::Creating,
            folder: FolderState::Kept,
            base_tree: None,
            base_commit: None,
            tree: None,
            warnings: Vec::new(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            version: 1,
        };
        let actor = self.owner.actor();
        self.owner
            .write(self.operation("sandbox.intend"), move |unit| {
                let now = unit.now()?;
                let record = SandboxRecord {
                    // Who makes it has the plan's run.
                    node: unit.run_of(plan)?.map(|run| run.node),
                    created_at: now,
                    updated_at: now,
                    ..record.clone()
                };
                unit.insert_sandbox(&record)?;
                let intended = json!({
                    "sandbox_id": record.id,
                    "resource": record.resource_name,
                    "base": record.base,
                });
                let intended = event(EventKind::SandboxIntended, &actor, &intended)?;
                unit.append(StreamId::Plan(plan), &[intended])?;
                Ok(record)
            })
            .await
    }

    async fn take_seat(&self, record: SandboxRecord, workspace: &mut Workspace) -> Result<()> {
        let record = match record.state {
            SandboxState::Creating => self.make(record, workspace).await?,
            _ => self.reopen(record).await?,
        };
        let tree = record.tree.clone().ok_or_else(|| ExecutionError::Lost {
            reason: format!("sandbox {} has no tree on record", record.id),
        })?;
        let sandboxes = Arc::clone(&self.sandboxes);
        let id = record.id;
        let sandbox = spawn_blocking(move || sandboxes.open(id)).await??;
        workspace.seats.push(Seat {
            id,
            resource: record.resource_name,
            gate: Arc::new(RwLock::new(Inside { sandbox, tree })),
        });
        Ok(())
    }

    async fn make(
        &self,
        record: SandboxRecord,
        workspace: &mut Workspace,
    ) -> Result<SandboxRecord> {
        let new = NewSandbox {
            id: record.id,
            plan: record.plan_id,
            resource: record.resource_path.clone(),
            resource_type: record.resource_type,
            base: record.base,
            trusted_includes: self.trusted_includes(&record.resource_path).await?,
        };
        let sandboxes = Arc::clone(&self.sandboxes);
        let created = spawn_blocking(move || sandboxes.create(&new)).await??;
        let name = record.resource_name.clone();
        let warnings = created.warnings.iter().map(ToString::to_string).collect();
        workspace.warnings.push((name, created.warnings));
        self.confirm(SandboxRecord {
            state: SandboxState::Active,
            base_tree: Some(created.base.clone()),
            base_commit: created.base_commit,
            tree: Some(created.base),
            warnings,
            ..record
        })
        .await
    }

    /// The contents of a resource's `.worktreeinclude` that the user consented to.
    async fn trusted_includes(&self, resource: &AbsolutePath) -> Result<Vec<String>> {
        let resource = resource.clone();
        let path = ResourcePath::from_bytes(WORKTREE_INCLUDE);
        let path = path.map_err(StoreError::internal)?;
        let store = self.owner.store();
        let trusted = store.read(move |unit| trusted_hashes(unit, &resource, &path));
        Ok(trusted.await?)
    }

    /// Takes up a sandbox that was worked in before.
    async fn reopen(&self, record: SandboxRecord) -> Result<SandboxRecord> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let (id, tree, base) = (record.id, record.tree.clone(), base_of(&record));
        let looked_at = record.clone();
        spawn_blocking(move || {
            if is_removed(&*sandboxes, &looked_at)? {
                return Err(removed_error(&looked_at, WorkAgain::Execute));
            }
            // The record may have been moved onto another base by an owner that then died.
            if let Some(base) = base {
                sandboxes.adopt(id, &base)?;
            }
            match tree {
                Some(tree) => Ok(sandboxes.open(id)?.restore(&tree, &Stop::new())?),
                None => Ok(()),
            }
        })
        .await??;
        match record.state {
            SandboxState::Active => Ok(record),
            _ => {
                self.confirm(SandboxRecord {
                    state: SandboxState::Active,
                    ..record
                })
                .await
            }
        }
    }

    /// Writes how a sandbox stands now.
    pub(super) async fn confirm(&self, record: SandboxRecord) -> Result<SandboxRecord> {
        let actor = self.owner.actor();
        self.owner
            .write(self.operation("sandbox.confirm"), move |unit| {
                let before = unit.sandbox(record.id)?;
                let mut record = SandboxRecord {
                    updated_at: unit.now()?,
                    ..record.clone()
                };
                record.version = unit.update_sandbox(&record)?;
                let changed = json!({
                    "sandbox_id": record.id,
                    "from": before.state,
                    "to": record.state,
                    "tree": record.tree,
                    "warnings": record.warnings,
                });
                let changed = event(EventKind::SandboxStateChanged, &actor, &changed)?;
                unit.append(StreamId::Plan(record.plan_id), &[changed])?;
                Ok(record)
            })
            .await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// Writes another state of a sandbox. The caller appends the event.
pub(crate) fn change_sandbox(
    unit: &mut dyn Unit,
    sandbox: SandboxRecord,
    to: SandboxState,
    actor: &str,
) -> Result<NewEvent, StoreError> {
    let from = sandbox.state;
    let sandbox = SandboxRecord {
        state: to,
        updated_at: unit.now()?,
        ..sandbox
    };
    unit.update_sandbox(&sandbox)?;
    let payload = json!({
        "sandbox_id": sandbox.id,
        "from": from,
        "to": sandbox.state,
        "tree": sandbox.tree,
    });
    event(EventKind::SandboxStateChanged, actor, &payload)
}

/// What a sandbox that was made begins with.
pub(crate) fn base_of(record: &SandboxRecord) -> Option<SandboxBase> {
    Some(SandboxBase {
        tree: record.base_tree.clone()?,
        commit: record.base_commit.clone(),
    })
}

/// Refuses a plan that has files on another machine.
pub(crate) fn all_here(
    unit: &mut dyn Unit,
    plan: PlanId,
    here: &str,
    command: &'static str,
) -> Result<()> {
    for record in unit.sandboxes_of(plan)? {
        if let Some(node) = record.elsewhere(here) {
            return Err(Elsewhere {
                plan,
                resource: record.resource_name.clone(),
                node: node.to_owned(),
                command,
            }
            .into());
        }
    }
    Ok(())
}
