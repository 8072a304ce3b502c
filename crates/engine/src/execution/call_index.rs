//! An index of the calls of an owned plan. Their contents are read when needed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::id::{PlanId, SandboxId, ToolCallId};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, TreeId};

use cleveragents_ports::{StoreError, StoreHandle, Transaction};

/// Number of calls read per page.
const PAGE: u32 = 500;

/// Step, turn and slot of a call.
pub(super) type CallPosition = (u32, u32, u32);

/// A call without its input and output.
#[derive(Debug, Clone)]
pub(super) struct CallEntry {
    pub(super) id: ToolCallId,
    pub(super) number: i64,
    pub(super) state: ToolCallState,
    pub(super) attempt: u32,
    pub(super) step: Option<u32>,
    /// `None` for a call outside the steps of a strategy.
    pub(super) position: Option<CallPosition>,
    pub(super) tool: NamespacedName,
    pub(super) sandbox_id: SandboxId,
    pub(super) tree_before: TreeId,
    pub(super) effects: OutsideEffects,
    pub(super) validity: CallValidity,
}

/// Whether a call has effects outside its sandbox that must not be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutsideEffects {
    None,
    OnceOnly,
}

/// Whether the changes of a call still count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallValidity {
    Valid,
    Undone,
}

impl CallEntry {
    fn new(record: &ToolCallRecord) -> Self {
        let call = &record.call;
        Self {
            id: call.id,
            number: record.number,
            state: record.state,
            attempt: call.attempt,
            step: call.step,
            position: call.step.map(|step| (step, call.turn, call.slot)),
            tool: call.tool.clone(),
            sandbox_id: call.sandbox_id,
            tree_before: call.tree_before.clone(),
            effects: if call.side_effects.is_empty() {
                OutsideEffects::None
            } else {
                OutsideEffects::OnceOnly
            },
            validity: match record.undone_by {
                None => CallValidity::Valid,
                Some(_) => CallValidity::Undone,
            },
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.validity == CallValidity::Valid
    }
}

/// The calls of a plan by number. Read once after the claim, then kept up to date by the owner:
/// no other process makes or undoes calls meanwhile (law 5). Safe for concurrent calls (law 6).
#[derive(Debug, Default)]
pub(crate) struct CallIndex(Mutex<BTreeMap<i64, CallEntry>>);

impl CallIndex {
    /// Reads the plan's calls page by page and keeps no contents.
    pub(super) fn load(
        tx: &mut dyn Transaction,
        plan: PlanId,
    ) -> std::result::Result<Self, StoreError> {
        let mut entries: BTreeMap<i64, CallEntry> = BTreeMap::new();
        loop {
            let after = entries.last_key_value().map_or(0, |(number, _)| *number);
            let page = tx.tool_calls_after(plan, after, PAGE)?;
            if page.is_empty() {
                return Ok(Self(Mutex::new(entries)));
            }
            entries.extend(page.iter().map(|it| (it.number, CallEntry::new(it))));
        }
    }

    /// Adds or replaces a call.
    pub(crate) fn record(&self, record: &ToolCallRecord) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(record.number, CallEntry::new(record));
    }

    /// Marks every call after this number as undone.
    pub(crate) fn undo_after(&self, number: i64) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, entry) in entries.range_mut(number.saturating_add(1)..) {
            entry.validity = CallValidity::Undone;
        }
    }

    /// Returns the calls for which `is_wanted` returns true, in the order they were made.
    pub(super) fn select(&self, is_wanted: impl Fn(&CallEntry) -> bool) -> Vec<CallEntry> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .values()
            .filter(|it| is_wanted(it))
            .cloned()
            .collect()
    }
}

/// Reads one call with its contents.
pub(super) async fn load_call(
    store: &StoreHandle,
    id: ToolCallId,
) -> std::result::Result<ToolCallRecord, StoreError> {
    store.read(move |tx| tx.tool_call(id)).await
}

/// Reads these calls with their contents.
pub(super) async fn load_calls(
    store: &StoreHandle,
    entries: &[CallEntry],
) -> std::result::Result<Vec<ToolCallRecord>, StoreError> {
    let ids: Vec<ToolCallId> = entries.iter().map(|it| it.id).collect();
    store
        .read(move |tx| ids.iter().map(|id| tx.tool_call(*id)).collect())
        .await
}
