//! Reads all records of a plan and checks that they are consistent.
//!
//! The same work is recorded in several places by different code: the rows of tool calls, model
//! calls, changes and errors, the events of the journal, and the sandbox's tree in git. A record
//! that one of them has and another lacks was lost.

use std::collections::BTreeMap;

use cleveragents_domain::changeset::RecordedChange;
use cleveragents_domain::event::payloads::{ChangeRecorded, ErrorRecorded};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::model_call::{ModelCallRecord, ModelCallState};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    ChainFault, ChangeEntry, ErrorRecord, Event, EventKind, FileOperation, FileState, Plan,
    ResourcePath, StreamId,
};
use cleveragents_engine::execution::results::{Artifact, ArtifactKind};
use cleveragents_ports::Transaction;
use cleveragents_ports::journal_verification::Verification;
use cleveragents_ports::{StoreError, StoreHandle};

use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;

/// Number of rows that one read returns.
const PAGE: u32 = 1000;

#[derive(Debug)]
pub(super) struct PlanRecords {
    pub(super) tool_calls: Vec<ToolCallRecord>,
    pub(super) model_calls: Vec<ModelCallRecord>,
    pub(super) changes: Vec<RecordedChange>,
    pub(super) errors: Vec<ErrorRecord>,
    events: Vec<Event>,
    /// The diff of the sandbox's tree against its base, as git reports it.
    net_changes: Vec<Artifact>,
}

/// A plan's records and the result of checking them.
#[derive(Debug)]
pub(super) struct PlanEvidence {
    pub(super) plan: Plan,
    pub(super) records: PlanRecords,
    /// Missing or contradictory records, each as a sentence.
    pub(super) inconsistencies: Vec<String>,
    pub(super) journal: Result<Verification, ChainFault>,
}

impl PlanEvidence {
    pub(super) fn collect(plan: PlanId, app: &AppContext<'_>) -> Result<Self, CommandFailure> {
        let net = app.block_on(app.results()?.artifacts(plan))?.artifacts;
        let records = app.block_on(PlanRecords::read(plan, net, app.store()))?;
        Ok(Self {
            plan: app.block_on(app.store().read(move |tx| tx.plan(plan)))?,
            inconsistencies: records.find_inconsistencies(),
            journal: app.verify(StreamId::Plan(plan))?,
            records,
        })
    }
}

impl PlanRecords {
    /// Reads everything in one snapshot.
    async fn read(id: PlanId, net: Vec<Artifact>, store: &StoreHandle) -> Result<Self, StoreError> {
        store
            .read(move |tx| {
                let mut changes = Vec::new();
                for changeset in tx.changesets_of(id)? {
                    let page = |after| tx.changes_after(changeset.id, after, PAGE);
                    changes.extend(read_all_pages(page, |it: &RecordedChange| {
                        it.entry.sequence
                    })?);
                }
                let tx: &mut dyn Transaction = tx;
                Ok::<_, StoreError>(Self {
                    tool_calls: read_all_pages(
                        |after| tx.tool_calls_after(id, after, PAGE),
                        |it: &ToolCallRecord| it.number,
                    )?,
                    model_calls: read_all_pages(
                        |after| tx.model_calls_after(id, after, PAGE),
                        |it: &ModelCallRecord| it.number,
                    )?,
                    changes,
                    errors: read_all_pages(
                        |after| tx.errors_of(id, after, PAGE),
                        |it: &ErrorRecord| it.sequence.unwrap_or(i64::MAX),
                    )?,
                    events: read_all_pages(
                        |after| tx.events(StreamId::Plan(id), after, PAGE),
                        |it: &Event| it.stream_seq,
                    )?,
                    net_changes: net.clone(),
                })
            })
            .await
    }

    /// Counts every failed attempt, including repeated ones that share a row.
    pub(super) fn failed_attempts(&self) -> u64 {
        self.errors.iter().map(|error| error.occurrences).sum()
    }

    /// Returns the failed attempts one by one, from the journal.
    pub(super) fn attempts(&self) -> Vec<ErrorRecord> {
        let events = self.events.iter();
        let events = events.filter(|it| it.kind == EventKind::ErrorRecorded);
        let read = |event: &Event| event.read::<ErrorRecorded>().ok()?.known();
        events.filter_map(read).map(|it| it.0).collect()
    }

    /// Returns every record that one place has and another lacks.
    fn find_inconsistencies(&self) -> Vec<String> {
        let mut lost = self.find_call_inconsistencies();
        lost.extend(self.find_change_inconsistencies());
        lost.extend(check_replay(&self.changes, &self.net_changes));
        lost
    }

    /// Checks calls and errors: each row has its events, each call has ended, and a call has a
    /// recorded change exactly if its tree changed.
    fn find_call_inconsistencies(&self) -> Vec<String> {
        use EventKind as Kind;
        let mut lost = Vec::new();
        let models = self.model_calls.len() as u64;
        let tools = self.tool_calls.len() as u64;
        let pairs = [
            ("calls of tools", tools, &[Kind::ToolInvoked][..]),
            (
                "ended calls of tools",
                tools,
                &[Kind::ToolCompleted, Kind::ToolErrored],
            ),
            ("calls of models", models, &[Kind::ModelAsked]),
            (
                "ended calls of models",
                models,
                &[Kind::ModelAnswered, Kind::ModelFailed],
            ),
            ("errors", self.failed_attempts(), &[Kind::ErrorRecorded]),
        ];
        for (what, rows, kinds) in pairs {
            let journalled = self.events.iter().filter(|it| kinds.contains(&it.kind));
            let journalled = journalled.count() as u64;
            if journalled != rows {
                lost.push(format!(
                    "{rows} {what} on record, {journalled} in the journal"
                ));
            }
        }
        for call in &self.tool_calls {
            let (number, tool) = (call.number, &call.call.tool);
            if call.state == ToolCallState::Invoked {
                lost.push(format!("call {number} of {tool} never ended"));
            }
            let after = call.tree_after.as_ref();
            let is_other = after.is_some_and(|after| *after != call.call.tree_before);
            let mut changes = self.changes.iter();
            let is_recorded = changes.any(|it| it.entry.tool_call_id == call.call.id);
            if is_other != is_recorded {
                let what = "its recorded changes do not match the tree";
                lost.push(format!("call {number} of {tool}: {what}"));
            }
        }
        let asked = |it: &&ModelCallRecord| it.state == ModelCallState::Asked;
        lost.extend(self.model_calls.iter().filter(asked).map(|it| {
            let number = it.number;
            format!("call {number} of a model never ended")
        }));
        lost
    }

    /// Checks changes: the rows of the changesets match the events of the journal.
    fn find_change_inconsistencies(&self) -> Vec<String> {
        let events = self.events.iter();
        let events = events.filter(|it| it.kind == EventKind::ChangeRecorded);
        let read = |event: &Event| event.read::<ChangeRecorded>().ok()?.known();
        let mut recorded: Vec<Option<ChangeRecorded>> = events.map(read).collect();
        let mut lost = Vec::new();
        for change in &self.changes {
            let same = |it: &Option<ChangeRecorded>| {
                it.as_ref().is_some_and(|it| {
                    it.changeset_id == change.changeset_id && it.entry == change.entry
                })
            };
            match recorded.iter().position(same) {
                Some(place) => drop(recorded.swap_remove(place)),
                None => lost.push(format!("a change of {} in no event", change.entry.path)),
            }
        }
        lost.extend(recorded.iter().map(|it| match it {
            Some(it) => format!("an event about {} without its change", it.entry.path),
            None => "an event about a change that cannot be read".to_owned(),
        }));
        lost
    }
}

/// Replays the recorded changes and compares the result with the actual tree. Each change must
/// start from the state in which the previous change of the same path left it.
fn check_replay(changes: &[RecordedChange], net: &[Artifact]) -> Vec<String> {
    type FileStates = BTreeMap<ResourcePath, Option<FileState>>;
    let (mut first, mut last) = (FileStates::new(), FileStates::new());
    let mut lost = Vec::new();
    for change in changes.iter().filter(|it| it.undone_by.is_none()) {
        for (path, before, after) in effects(&change.entry) {
            let known = last.insert(path.clone(), after);
            if known.as_ref().is_some_and(|known| *known != before) {
                lost.push(format!("a change of {path} between two that are recorded"));
            }
            first.entry(path).or_insert(before);
        }
    }
    let mut expected: BTreeMap<ResourcePath, (ArtifactKind, Option<FileState>)> = BTreeMap::new();
    for (path, before) in first {
        let after = last.remove(&path).flatten();
        let kind = match (&before, &after) {
            (before, after) if before == after => continue,
            (None, _) => ArtifactKind::Write,
            (_, None) => ArtifactKind::Delete,
            _ => ArtifactKind::Edit,
        };
        expected.insert(path, (kind, after.or(before)));
    }
    for found in net {
        match expected.remove(&found.path) {
            Some((kind, file)) if kind == found.kind && file == found.file => {}
            Some(_) => lost.push(format!("{} is not what was recorded", found.path)),
            None => lost.push(format!("{} changed, and no change is recorded", found.path)),
        }
    }
    let left = expected.into_keys();
    lost.extend(left.map(|path| format!("{path} is recorded as changed, and is not")));
    lost
}

/// Returns the state before and after for each path that a change affects.
fn effects(entry: &ChangeEntry) -> Vec<(ResourcePath, Option<FileState>, Option<FileState>)> {
    let (path, before, after) = (&entry.path, &entry.before, &entry.after);
    match &entry.operation {
        FileOperation::Rename { from } => vec![
            (from.clone(), before.clone(), None),
            (path.clone(), None, after.clone()),
        ],
        _ => vec![(path.clone(), before.clone(), after.clone())],
    }
}

/// Reads all pages.
fn read_all_pages<T>(
    mut page: impl FnMut(i64) -> Result<Vec<T>, StoreError>,
    position: impl Fn(&T) -> i64,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let some = page(after)?;
        let Some(last) = some.last() else {
            return Ok(found);
        };
        after = position(last);
        found.extend(some);
    }
}

#[cfg(test)]
mod tests;
