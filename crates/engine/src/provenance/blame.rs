//! The plan, the decision and the tool call that wrote each line of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord};
use cleveragents_domain::changeset::RecordedChange;
use cleveragents_domain::id::{DecisionId, PlanId, SandboxId, ToolCallId};
use cleveragents_domain::line_range::LineRange;
use cleveragents_domain::plan_trailer::PlanTrailer;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{AbsolutePath, Decision, FileOperation, NamespacedName, ResourcePath};
use cleveragents_ports::commit_history::{BlamedLine, FileBlame, HistoryCommit};
use cleveragents_ports::{StoreError, Transaction};
use tokio::task::spawn_blocking;

use super::line_calls::{LineCalls, replay};
use super::{ProvenanceError, ProvenanceReader, Result, part_of_commit};
use crate::execution::ResultsError;

/// Number of changes read per page.
const PAGE: u32 = 500;

/// A file with the origin of its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOrigins {
    pub root: AbsolutePath,
    pub path: ResourcePath,
    pub lines: Vec<LineWithOrigin>,
    /// Plans whose captured trees cannot be read here. The calls of a line are then known only if
    /// one call changed the file.
    pub without_trees: BTreeMap<PlanId, MissingTrees>,
}

/// Why the captured trees of a plan cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingTrees {
    /// The sandbox was removed.
    Removed,
    /// The sandbox is on this node.
    OtherNode(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct LineWithOrigin {
    pub line: BlamedLine,
    /// `None` if no apply wrote the line.
    pub plan: Option<LinePlan>,
}

/// The plan that wrote a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePlan {
    pub id: PlanId,
    /// `None` if the plan is not in this database.
    pub name: Option<NamespacedName>,
    /// The direction of the apply that made the commit. `None` if no apply here made this commit:
    /// it was amended or copied, it comes from another machine, or its trailer is forged. Then
    /// neither call nor decision are known.
    pub apply: Option<ApplyDirection>,
    pub call: Option<LineCall>,
    pub decision: Option<LineDecision>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCall {
    pub id: ToolCallId,
    /// Its number among the calls of the plan.
    pub number: i64,
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    pub step: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineDecision {
    pub id: DecisionId,
    pub question: String,
}

/// What is stored of a plan and one commit with its trailer.
#[derive(Debug)]
struct CommitWork {
    plan: PlanId,
    name: Option<NamespacedName>,
    apply: Option<ApplyDirection>,
    sandbox: Option<SandboxRecord>,
    changes: Vec<RecordedChange>,
    decisions: Vec<Decision>,
}

impl ProvenanceReader {
    /// Returns the origin of the lines of a file, or `None` if its repository does not have it.
    pub async fn blame(
        &self,
        file: PathBuf,
        lines: Option<LineRange>,
    ) -> Result<Option<FileOrigins>> {
        let history = Arc::clone(&self.history);
        let blame = spawn_blocking(move || history.blame(&file, lines)).await??;
        let Some(blame) = blame else {
            return Ok(None);
        };
        let mut works = BTreeMap::new();
        for commit in &blame.commits {
            if let Some(trailer) = PlanTrailer::from_message(&commit.message) {
                let work = self.load_work(commit, &trailer).await?;
                works.insert(commit.id.clone(), work);
            }
        }
        let mut without_trees = BTreeMap::new();
        let mut files: BTreeMap<(String, Vec<u8>), FileCalls> = BTreeMap::new();
        for (commit, path) in origins(&blame) {
            let Some(work) = works.get(&commit) else {
                continue;
            };
            let (calls, missing) = self.calls_of(work, &path).await?;
            if let Some(missing) = missing {
                without_trees.insert(work.plan, missing);
            }
            files.insert((commit, path.as_bytes().to_vec()), calls);
        }
        let lines = blame.lines.into_iter().map(|line| {
            let plan = line_plan(&line, &works, &files);
            LineWithOrigin { line, plan }
        });
        Ok(Some(FileOrigins {
            root: blame.root,
            path: blame.path,
            lines: lines.collect(),
            without_trees,
        }))
    }

    async fn load_work(&self, commit: &HistoryCommit, trailer: &PlanTrailer) -> Result<CommitWork> {
        let (plan, commit) = (trailer.plan, commit.id.clone());
        let load = move |tx: &mut dyn Transaction| load_work(tx, plan, &commit);
        Ok(self.store.read(load).await?)
    }

    /// Returns the calls that wrote a file of the plan's result, and why its trees cannot be read.
    async fn calls_of(
        &self,
        work: &CommitWork,
        path: &ResourcePath,
    ) -> Result<(FileCalls, Option<MissingTrees>)> {
        let Some(sandbox) = &work.sandbox else {
            return Ok((FileCalls::None, None));
        };
        let (names, ids) = relevant_calls(&work.changes, path);
        let read = move |tx: &mut dyn Transaction| {
            let calls = ids.iter().map(|id| tx.tool_call(*id));
            calls.collect::<std::result::Result<Vec<_>, StoreError>>()
        };
        let mut calls: Vec<ToolCallRecord> = self.store.read(read).await?;
        calls.sort_by_key(|it| it.number);
        let calls: Vec<Arc<ToolCallRecord>> = calls.into_iter().map(Arc::new).collect();
        let result = sandbox.tree.clone();
        let replayed = calls.clone();
        let replay = self.results.query_sandbox(sandbox, move |sandbox| {
            replay(sandbox, &replayed, &names, result.as_ref())
        });
        let missing = match replay.await {
            Ok(lines) => return Ok((FileCalls::Lines(lines), None)),
            Err(error) => missing_trees(error)?,
        };
        let calls = match calls.as_slice() {
            [] => FileCalls::None,
            // A single call wrote everything that the plan changed in this file.
            [only] => FileCalls::One(Arc::clone(only)),
            _ => FileCalls::Unknown,
        };
        Ok((calls, Some(missing)))
    }
}

/// Returns why trees cannot be read if their sandbox is not here; other errors as they are.
fn missing_trees(error: ResultsError) -> Result<MissingTrees> {
    match error {
        ResultsError::Removed { .. } => Ok(MissingTrees::Removed),
        ResultsError::WrongNode { node, .. } => Ok(MissingTrees::OtherNode(node)),
        ResultsError::Store(error) => Err(error.into()),
        ResultsError::Sandbox(error) => Err(error.into()),
        error @ (ResultsError::NoResource { .. }
        | ResultsError::NotChanged { .. }
        | ResultsError::Internal { .. }) => Err(ProvenanceError::Internal {
            reason: error.to_string(),
        }),
    }
}

/// The calls that wrote one file of a plan's result.
enum FileCalls {
    /// No call changed the file.
    None,
    One(Arc<ToolCallRecord>),
    Lines(LineCalls),
    /// Several calls changed it, and the captured trees cannot be read.
    Unknown,
}

/// Returns the commits and the paths there that the lines are from.
fn origins(blame: &FileBlame) -> Vec<(String, ResourcePath)> {
    let origins = blame.lines.iter().filter_map(|it| it.origin.as_ref());
    let mut origins: Vec<(String, ResourcePath)> = origins
        .map(|it| (it.commit.clone(), it.path.clone()))
        .collect();
    origins.sort();
    origins.dedup();
    origins
}

fn load_work(
    tx: &mut dyn Transaction,
    plan: PlanId,
    commit: &str,
) -> std::result::Result<CommitWork, StoreError> {
    let mut work = CommitWork {
        plan,
        name: None,
        apply: None,
        sandbox: None,
        changes: Vec::new(),
        decisions: Vec::new(),
    };
    match tx.plan(plan) {
        Ok(found) => work.name = Some(found.name),
        Err(StoreError::NotFound { .. }) => return Ok(work),
        Err(error) => return Err(error),
    }
    let applies = tx.applies_of(plan)?;
    let applied = |it: &ApplyRecord| {
        let part = part_of_commit(it, commit)?;
        Some((it.direction, part.sandbox_id))
    };
    // Anybody can write a trailer. Only the record of an apply shows that a plan made the commit.
    let Some((direction, sandbox)) = applies.iter().find_map(applied) else {
        return Ok(work);
    };
    work.apply = Some(direction);
    // The reversal of a plan restores lines that others wrote.
    if direction == ApplyDirection::Unapply {
        return Ok(work);
    }
    let sandboxes = tx.sandboxes_of(plan)?;
    work.sandbox = sandboxes.into_iter().find(|it| it.id == sandbox);
    if let Some(sandbox) = &work.sandbox {
        work.changes = load_changes(tx, plan, sandbox.id)?;
        work.decisions = tx.decisions_of(plan)?;
    }
    Ok(work)
}

/// Returns the changes of a sandbox that no rollback undid.
fn load_changes(
    tx: &mut dyn Transaction,
    plan: PlanId,
    sandbox: SandboxId,
) -> std::result::Result<Vec<RecordedChange>, StoreError> {
    let mut changes = Vec::new();
    for changeset in tx.changesets_of(plan)? {
        if changeset.sandbox_id != sandbox {
            continue;
        }
        let mut after = 0;
        loop {
            let page = tx.changes_after(changeset.id, after, PAGE)?;
            let Some(last) = page.last() else {
                break;
            };
            after = last.entry.sequence;
            changes.extend(page.into_iter().filter(|it| it.undone_by.is_none()));
        }
    }
    Ok(changes)
}

/// Returns all names of a file, and the calls that changed it.
fn relevant_calls(
    changes: &[RecordedChange],
    path: &ResourcePath,
) -> (Vec<ResourcePath>, BTreeSet<ToolCallId>) {
    let mut names = BTreeSet::from([path.clone()]);
    loop {
        let former = changes.iter().filter_map(|it| match &it.entry.operation {
            FileOperation::Rename { from } if names.contains(&it.entry.path) => Some(from.clone()),
            _ => None,
        });
        let former: Vec<ResourcePath> = former.filter(|it| !names.contains(it)).collect();
        if former.is_empty() {
            break;
        }
        names.extend(former);
    }
    let of_file = changes.iter().filter(|it| names.contains(&it.entry.path));
    let ids = of_file.map(|it| it.entry.tool_call_id).collect();
    (names.into_iter().collect(), ids)
}

fn line_plan(
    line: &BlamedLine,
    works: &BTreeMap<String, CommitWork>,
    files: &BTreeMap<(String, Vec<u8>), FileCalls>,
) -> Option<LinePlan> {
    let origin = line.origin.as_ref()?;
    let work = works.get(&origin.commit)?;
    let file = files.get(&(origin.commit.clone(), origin.path.as_bytes().to_vec()));
    let call = match file {
        Some(FileCalls::One(call)) => Some(call),
        Some(FileCalls::Lines(lines)) => lines.call_of(origin.number, &line.text),
        Some(FileCalls::None | FileCalls::Unknown) | None => None,
    };
    let decision = call.and_then(|it| it.call.decision_id);
    Some(LinePlan {
        id: work.plan,
        name: work.name.clone(),
        apply: work.apply,
        call: call.map(|it| LineCall {
            id: it.call.id,
            number: it.number,
            tool: it.call.tool.clone(),
            actor: it.call.actor.clone(),
            step: it.call.step,
        }),
        decision: decision.and_then(|id| line_decision(&work.decisions, id)),
    })
}

fn line_decision(decisions: &[Decision], id: DecisionId) -> Option<LineDecision> {
    let found = decisions.iter().find(|it| it.decision_id == id)?;
    Some(LineDecision {
        id,
        question: found.question.clone(),
    })
}
