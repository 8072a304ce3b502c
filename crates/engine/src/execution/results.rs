//! Reads the results of a plan: the difference between its sandboxes and their bases.
//!
//! It reads only captured trees, which are immutable. So it needs no lock, and unconfirmed work is
//! not visible.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::{FolderState, SandboxRecord};
use cleveragents_domain::{FileState, NamespacedName, Plan, ResourcePath, ResourceType, TreeId};
use tokio::task::{JoinError, spawn_blocking};

use cleveragents_ports::sandbox::{
    DiffLines, DiffStat, NetChange, PublishedCommit, Sandbox, SandboxError, Sandboxes, TreeDiff,
};
use cleveragents_ports::{StopSignal, StoreError, StoreHandle, Transaction};

#[derive(Debug, Clone)]
pub struct ResultReader {
    store: StoreHandle,
    sandboxes: Arc<dyn Sandboxes>,
    /// The name of this machine.
    node: String,
}

/// Selects a part of a result; everything by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub resource: Option<NamespacedName>,
    /// Files or folders as the user typed them: percent-encoded as displayed, or raw.
    pub paths: Vec<String>,
}

/// The differences of all sandboxes of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultDiff {
    pub plan: Plan,
    /// One per created sandbox, changed or not.
    pub resources: Vec<ResourceDiff>,
}

/// The difference of one sandbox to its base.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceDiff {
    pub sandbox: SandboxRecord,
    pub diff: TreeDiff,
}

/// The net change of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultArtifacts {
    pub plan: Plan,
    /// Ordered by resource, then by path.
    pub artifacts: Vec<Artifact>,
}

/// The net change of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    pub resource: NamespacedName,
    pub path: ResourcePath,
    pub kind: ArtifactKind,
    /// The current file, or the previous one if it was deleted.
    pub file: Option<FileState>,
    pub lines: DiffLines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// The file is new.
    Write,
    Edit,
    Delete,
}

impl ArtifactKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Delete => "delete",
        }
    }
}

/// Error of a result that cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResultsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the plan has no sandbox of a resource {name}")]
    NoResource {
        name: NamespacedName,
        known: Vec<NamespacedName>,
    },
    #[error("the plan did not change `{typed}`")]
    NotChanged {
        typed: String,
        changed: Vec<ResourcePath>,
    },
    #[error("the sandbox of {} is gone", sandbox.resource_name)]
    Removed {
        sandbox: Box<SandboxRecord>,
        /// The published commit in the user's repository, if it still exists.
        published: Option<PublishedCommit>,
    },
    #[error("the sandbox of {} is on another machine, node {node}", sandbox.resource_name)]
    WrongNode {
        sandbox: Box<SandboxRecord>,
        node: String,
    },
    #[error("the work ended unexpectedly: {reason}")]
    Internal { reason: String },
}

impl From<JoinError> for ResultsError {
    fn from(error: JoinError) -> Self {
        Self::Internal {
            reason: error.to_string(),
        }
    }
}

pub type ResultsResult<T> = std::result::Result<T, ResultsError>;

impl ResultReader {
    pub fn new(store: StoreHandle, sandboxes: Arc<dyn Sandboxes>, node: String) -> Self {
        Self {
            store,
            sandboxes,
            node,
        }
    }

    /// Returns the differences between the plan's sandboxes and their bases.
    pub async fn diff(&self, plan: PlanId, selection: Selection) -> ResultsResult<ResultDiff> {
        let (plan, records) = self.read(plan).await?;
        let records = filter_by_resource(records, selection.resource.as_ref())?;
        let mut resources = Vec::new();
        for record in records {
            let Some((base, tree)) = base_and_result(&record) else {
                continue;
            };
            let diff = self
                .query_sandbox(&record, move |sandbox| {
                    sandbox.diff(&base, &tree, &[], &StopSignal::new())
                })
                .await?;
            let sandbox = record;
            resources.push(ResourceDiff { sandbox, diff });
        }
        if !selection.paths.is_empty() {
            resources = self.narrow_to_paths(resources, &selection.paths).await?;
        }
        Ok(ResultDiff { plan, resources })
    }

    /// Returns the files that the plan wrote, edited and deleted, one entry per path. A moved file
    /// counts as deleted and written.
    pub async fn artifacts(&self, plan: PlanId) -> ResultsResult<ResultArtifacts> {
        let (plan, records) = self.read(plan).await?;
        let mut all = Vec::new();
        for record in records {
            let Some((base, tree)) = base_and_result(&record) else {
                continue;
            };
            let changes = self
                .query_sandbox(&record, move |sandbox| {
                    sandbox.net_changes(&base, &tree, &StopSignal::new())
                })
                .await?;
            let of = |change| artifact(&record.resource_name, change);
            all.extend(changes.into_iter().map(of));
        }
        Ok(ResultArtifacts {
            plan,
            artifacts: all,
        })
    }

    async fn read(&self, plan: PlanId) -> ResultsResult<(Plan, Vec<SandboxRecord>)> {
        let read = move |tx: &mut dyn Transaction| {
            let plan = tx.plan(plan)?;
            let sandboxes = tx.sandboxes_of(plan.identity.plan_id)?;
            Ok::<_, StoreError>((plan, sandboxes))
        };
        Ok(self.store.read(read).await?)
    }

    /// Runs a query on the sandbox. Fails if its files are gone.
    pub(crate) async fn query_sandbox<T: Send + 'static>(
        &self,
        record: &SandboxRecord,
        query: impl FnOnce(&dyn Sandbox) -> Result<T, SandboxError> + Send + 'static,
    ) -> ResultsResult<T> {
        if let Some(node) = record.other_node(&self.node) {
            return Err(ResultsError::WrongNode {
                sandbox: Box::new(record.clone()),
                node: node.to_owned(),
            });
        }
        let (sandboxes, record) = (Arc::clone(&self.sandboxes), record.clone());
        spawn_blocking(move || {
            let opened = match record.folder {
                FolderState::Kept => sandboxes.open(record.id),
                FolderState::Leaving | FolderState::Gone => {
                    Err(SandboxError::NotFound { id: record.id })
                }
            };
            match opened {
                Ok(sandbox) => Ok(query(&*sandbox)?),
                Err(SandboxError::NotFound { .. }) => Err(removed_error(&*sandboxes, record)),
                Err(error) => Err(error.into()),
            }
        })
        .await?
    }

    /// Restricts the diff to the named paths. Fails if a path is in no resource's diff.
    async fn narrow_to_paths(
        &self,
        all: Vec<ResourceDiff>,
        typed: &[String],
    ) -> ResultsResult<Vec<ResourceDiff>> {
        let stats = || all.iter().flat_map(|it| &it.diff.files);
        for one in typed {
            let names = candidate_paths(one);
            if !stats().any(|stat| names.iter().any(|name| matches_path(stat, name))) {
                return Err(ResultsError::NotChanged {
                    typed: one.clone(),
                    changed: stats().map(|stat| stat.path.clone()).collect(),
                });
            }
        }
        let names: Vec<ResourcePath> = typed.iter().flat_map(|one| candidate_paths(one)).collect();
        let mut narrowed = Vec::with_capacity(all.len());
        for one in all {
            let matching = one.diff.files.iter();
            let matching =
                matching.filter(|stat| names.iter().any(|name| matches_path(stat, name)));
            // Both paths of a rename, so that it stays a rename.
            let paths: Vec<ResourcePath> = matching
                .flat_map(|stat| stat.renamed_from.iter().chain([&stat.path]))
                .cloned()
                .collect();
            let Some((base, tree)) = base_and_result(&one.sandbox) else {
                continue;
            };
            if paths.is_empty() {
                continue;
            }
            let diff = self
                .query_sandbox(&one.sandbox, move |sandbox| {
                    sandbox.diff(&base, &tree, &paths, &StopSignal::new())
                })
                .await?;
            narrowed.push(ResourceDiff { diff, ..one });
        }
        Ok(narrowed)
    }
}

fn filter_by_resource(
    records: Vec<SandboxRecord>,
    resource: Option<&NamespacedName>,
) -> ResultsResult<Vec<SandboxRecord>> {
    let Some(name) = resource else {
        return Ok(records);
    };
    let known = || records.iter().map(|it| it.resource_name.clone()).collect();
    match records.iter().find(|it| it.resource_name == *name) {
        Some(record) => Ok(vec![record.clone()]),
        None => Err(ResultsError::NoResource {
            name: name.clone(),
            known: known(),
        }),
    }
}

/// Returns the base and result trees, or `None` if the sandbox was not created yet.
fn base_and_result(record: &SandboxRecord) -> Option<(TreeId, TreeId)> {
    Some((record.base_tree.clone()?, record.tree.clone()?))
}

fn removed_error(sandboxes: &dyn Sandboxes, record: SandboxRecord) -> ResultsError {
    let published = match record.resource_type {
        // A lookup error counts as not published: this is only a hint for the user.
        ResourceType::GitCheckout => {
            let found = sandboxes.find_published(&record.resource_path, record.plan_id);
            found.ok().flatten()
        }
        ResourceType::FsDirectory => None,
    };
    ResultsError::Removed {
        sandbox: Box::new(record),
        published,
    }
}

/// Returns the paths that the typed text may mean.
pub(super) fn candidate_paths(typed: &str) -> Vec<ResourcePath> {
    let typed = typed.strip_prefix("./").unwrap_or(typed);
    let typed = typed.strip_suffix('/').unwrap_or(typed);
    let mut names: Vec<ResourcePath> = typed.parse().into_iter().collect();
    names.extend(ResourcePath::from_bytes(typed).ok());
    names.dedup();
    names
}

/// Whether `stat` is about the file `name`, or a file in the folder `name`.
pub(super) fn matches_path(stat: &DiffStat, name: &ResourcePath) -> bool {
    let is_in = |path: &ResourcePath| {
        let rest = path.as_bytes().strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
    };
    is_in(&stat.path) || stat.renamed_from.as_ref().is_some_and(is_in)
}

fn artifact(resource: &NamespacedName, change: NetChange) -> Artifact {
    let kind = match (&change.before, &change.after) {
        (None, _) => ArtifactKind::Write,
        (Some(_), Some(_)) => ArtifactKind::Edit,
        (Some(_), None) => ArtifactKind::Delete,
    };
    Artifact {
        resource: resource.clone(),
        path: change.path,
        kind,
        file: change.after.or(change.before),
        lines: change.lines,
    }
}
