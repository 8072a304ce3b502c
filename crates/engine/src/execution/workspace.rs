//! The open sandboxes of one plan, used by its owner.
//!
//! Creating a sandbox is recorded as an intent, done and confirmed (law 9), so another process can
//! finish it after a crash. Each sandbox has a lock: calls that read share it, a call that writes
//! holds it exclusively.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{SandboxIntended, SandboxStateChanged};
use cleveragents_domain::id::{PlanId, ResourceId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{
    AbsolutePath, BaseSource, NamespacedName, NewEvent, Plan, Resource, ResourcePath, StreamId,
    Timestamp, TreeId,
};
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, LocalOperation, Result, WrongNode};
use super::removed_sandboxes::{RedoCommand, is_removed, removed_error};
use super::runner::{RefusalKind, ToolRefusal};
use crate::journal::new_event;
use crate::runs::FencedWriter;
use crate::trust::trusted_hashes;
use cleveragents_ports::sandbox::{
    NewSandbox, Sandbox, SandboxBase, Sandboxes, WORKTREE_INCLUDE, Warning,
};
use cleveragents_ports::{Ids, StopSignal, StoreError, StoreOperation, Transaction};

/// One sandbox with its lock.
#[derive(Debug)]
pub struct SandboxHandle {
    pub id: SandboxId,
    pub resource: NamespacedName,
    pub resource_id: ResourceId,
    pub(super) lock: Arc<RwLock<OpenSandbox>>,
}

impl SandboxHandle {
    /// Returns a handle for an open sandbox with this tree.
    pub(super) fn new(record: &SandboxRecord, sandbox: Box<dyn Sandbox>, tree: TreeId) -> Self {
        Self {
            id: record.id,
            resource: record.resource_name.clone(),
            resource_id: record.resource_id,
            lock: Arc::new(RwLock::new(OpenSandbox { sandbox, tree })),
        }
    }
}

/// The state guarded by the lock of a [`SandboxHandle`].
#[derive(Debug)]
pub(super) struct OpenSandbox {
    pub(super) sandbox: Box<dyn Sandbox>,
    /// The tree after the last confirmed call.
    pub(super) tree: TreeId,
}

/// All sandboxes of a plan.
#[derive(Debug)]
pub struct Workspace {
    pub sandboxes: Vec<SandboxHandle>,
    pub warnings: Vec<(NamespacedName, Vec<Warning>)>,
}

/// Creates and opens sandboxes for the owner of a plan.
#[derive(Debug, Clone)]
pub(super) struct SandboxOpener {
    pub(super) owner: FencedWriter,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) sandboxes: Arc<dyn Sandboxes>,
}

impl Workspace {
    /// Opens or creates a sandbox for every resource of the plan.
    pub async fn open(
        owner: FencedWriter,
        ids: Arc<dyn Ids>,
        sandboxes: Arc<dyn Sandboxes>,
        plan: &Plan,
    ) -> Result<Self> {
        let opener = SandboxOpener {
            owner,
            ids,
            sandboxes,
        };
        opener.open_sandboxes(plan).await
    }

    /// Returns the sandbox of the named resource, or the only one if no name is given.
    pub fn sandbox(
        &self,
        resource: Option<&NamespacedName>,
    ) -> Result<&SandboxHandle, ToolRefusal> {
        let refused = |reason| ToolRefusal {
            kind: RefusalKind::Resource,
            reason,
        };
        let known = || {
            let names: Vec<String> = self
                .sandboxes
                .iter()
                .map(|it| it.resource.to_string())
                .collect();
            names.join(", ")
        };
        match (resource, self.sandboxes.as_slice()) {
            (None, [handle]) => Ok(handle),
            (None | Some(_), []) => Err(refused(
                "the plan's projects have no resources to work in".to_owned(),
            )),
            (None, _) => Err(refused(format!(
                "the plan has several resources: the call must name one of {}",
                known()
            ))),
            (Some(name), handles) => {
                let reason = || format!("the plan has no resource {name}, but {}", known());
                let handle = handles.iter().find(|it| it.resource == *name);
                handle.ok_or_else(|| refused(reason()))
            }
        }
    }
}

impl SandboxOpener {
    /// Opens or creates a sandbox for every resource of the plan. An existing one is restored to
    /// its last confirmed tree, which discards partial work of a dead owner.
    pub(super) async fn open_sandboxes(&self, plan: &Plan) -> Result<Workspace> {
        let id = plan.identity.plan_id;
        let projects = plan.brief.projects.clone();
        let (resources, records) = self
            .owner
            .store()
            .read(move |tx| {
                let mut resources: Vec<Resource> = Vec::new();
                for project in &projects {
                    for resource in tx.resources_of(project)? {
                        // Two projects may share a resource. Two sandboxes of it would conflict at
                        // Apply.
                        if !resources.iter().any(|known| known.id == resource.id) {
                            resources.push(resource);
                        }
                    }
                }
                // The node of the claimed run, which is this one: paths of sandboxes are valid only
                // there.
                let node = tx.run_of(id)?.map(|run| run.node);
                require_local_sandboxes(
                    tx,
                    id,
                    &node.unwrap_or_default(),
                    LocalOperation::Execute,
                )?;
                Ok::<_, ExecutionError>((resources, tx.sandboxes_of(id)?))
            })
            .await?;
        let mut workspace = Workspace {
            sandboxes: Vec::with_capacity(resources.len()),
            warnings: Vec::new(),
        };
        for resource in resources {
            let known = records.iter().find(|it| it.resource_id == resource.id);
            let record = match known {
                Some(record) => record.clone(),
                None => self.record_intent(id, &resource, plan.brief.base).await?,
            };
            self.open_sandbox(record, &mut workspace).await?;
        }
        Ok(workspace)
    }

    /// Records the intent to create a sandbox.
    async fn record_intent(
        &self,
        plan: PlanId,
        resource: &Resource,
        base: BaseSource,
    ) -> Result<SandboxRecord> {
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
            // Unknown until the sandbox exists. A crash before `confirm` leaves this state, and the
            // next owner creates it again under the same id (law 9).
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
            .write(self.operation("sandbox.intend"), move |tx| {
                let now = tx.now()?;
                let record = SandboxRecord {
                    // The owner of the plan's run creates it, on that run's node.
                    node: tx.run_of(plan)?.map(|run| run.node),
                    created_at: now,
                    updated_at: now,
                    ..record.clone()
                };
                tx.insert_sandbox(&record)?;
                let intended = SandboxIntended {
                    sandbox_id: record.id,
                    resource: record.resource_name.clone(),
                    base: record.base,
                };
                tx.append(StreamId::Plan(plan), &[new_event(&actor, &intended)?])?;
                Ok(record)
            })
            .await
    }

    async fn open_sandbox(&self, record: SandboxRecord, workspace: &mut Workspace) -> Result<()> {
        let record = match record.state {
            SandboxState::Creating => self.create(record, workspace).await?,
            _ => self.reopen(record).await?,
        };
        let tree = record
            .tree
            .clone()
            .ok_or_else(|| ExecutionError::Internal {
                reason: format!("sandbox {} has no tree on record", record.id),
            })?;
        let sandboxes = Arc::clone(&self.sandboxes);
        let id = record.id;
        let sandbox = spawn_blocking(move || sandboxes.open(id)).await??;
        let handle = SandboxHandle::new(&record, sandbox, tree);
        workspace.sandboxes.push(handle);
        Ok(())
    }

    async fn create(
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
            // Hashes, not a yes or no: the consent covers the content that the user saw.
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

    /// Returns the contents of a resource's `.worktreeinclude` that the user has consented to.
    async fn trusted_includes(&self, resource: &AbsolutePath) -> Result<Vec<String>> {
        let resource = resource.clone();
        let path = ResourcePath::from_bytes(WORKTREE_INCLUDE);
        let path = path.map_err(StoreError::internal)?;
        let store = self.owner.store();
        let trusted = store.read(move |tx| trusted_hashes(tx, &resource, &path));
        Ok(trusted.await?)
    }

    /// Reopens an existing sandbox.
    async fn reopen(&self, record: SandboxRecord) -> Result<SandboxRecord> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let (id, tree, base) = (record.id, record.tree.clone(), base_of(&record));
        let looked_at = record.clone();
        spawn_blocking(move || {
            if is_removed(&*sandboxes, &looked_at)? {
                // Never created anew here: its recorded calls would be missing from the files.
                return Err(removed_error(&looked_at, RedoCommand::Execute));
            }
            // A previous owner may have changed the recorded base (rebase) and died before it
            // changed the sandbox.
            if let Some(base) = base {
                sandboxes.set_base(id, &base)?;
            }
            match tree {
                Some(tree) => Ok(sandboxes.open(id)?.restore(&tree, &StopSignal::new())?),
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

    /// Records the current state of a sandbox.
    pub(super) async fn confirm(&self, record: SandboxRecord) -> Result<SandboxRecord> {
        let actor = self.owner.actor();
        self.owner
            .write(self.operation("sandbox.confirm"), move |tx| {
                // Read for the event. The version column guards the update itself.
                let before = tx.sandbox(record.id)?;
                let mut record = SandboxRecord {
                    updated_at: tx.now()?,
                    ..record.clone()
                };
                record.version = tx.update_sandbox(&record)?;
                let changed = SandboxStateChanged {
                    sandbox_id: record.id,
                    from: before.state,
                    to: record.state,
                    folder: None,
                    tree: record.tree.clone(),
                    warnings: Some(record.warnings.clone()),
                };
                let changed = new_event(&actor, &changed)?;
                tx.append(StreamId::Plan(record.plan_id), &[changed])?;
                Ok(record)
            })
            .await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// Changes the state of a sandbox. The caller must append the event.
pub(crate) fn change_sandbox_state(
    tx: &mut dyn Transaction,
    sandbox: SandboxRecord,
    to: SandboxState,
    actor: &str,
) -> Result<NewEvent, StoreError> {
    let from = sandbox.state;
    let sandbox = SandboxRecord {
        state: to,
        updated_at: tx.now()?,
        ..sandbox
    };
    tx.update_sandbox(&sandbox)?;
    let payload = SandboxStateChanged {
        sandbox_id: sandbox.id,
        from,
        to: sandbox.state,
        folder: None,
        tree: sandbox.tree,
        warnings: None,
    };
    new_event(actor, &payload)
}

/// Returns the base of a sandbox, or `None` if it was not created yet.
pub(crate) fn base_of(record: &SandboxRecord) -> Option<SandboxBase> {
    Some(SandboxBase {
        tree: record.base_tree.clone()?,
        commit: record.base_commit.clone(),
    })
}

/// Fails if a sandbox of the plan is on another machine.
pub(crate) fn require_local_sandboxes(
    tx: &mut dyn Transaction,
    plan: PlanId,
    this_node: &str,
    operation: LocalOperation,
) -> Result<()> {
    for record in tx.sandboxes_of(plan)? {
        if let Some(node) = record.other_node(this_node) {
            return Err(WrongNode {
                plan,
                resource: record.resource_name.clone(),
                node: node.to_owned(),
                operation,
            }
            .into());
        }
    }
    Ok(())
}
