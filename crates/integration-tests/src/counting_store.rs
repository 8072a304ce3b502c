//! A store that counts the operations of its transactions by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_domain::changeset::{ChangesetRecord, NewChange, RecordedChange};
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{
    ActionId, ApplyId, AttachmentId, ChangesetId, CheckpointId, DecisionId, IdFragment,
    InvariantId, ModelCallId, OwnerId, PlanId, ResourceId, SandboxId, ToolCallId,
};
use cleveragents_domain::model_call::{
    ConversationKey, ModelCallEnd, ModelCallRecord, ModelTotals, NewModelCall,
};
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord};
use cleveragents_domain::{
    AbsolutePath, Action, Attachment, AutomationProfile, ChangeEntry, Consent, Correction,
    Decision, DecisionEdge, ErrorRecord, Event, EventKind, Invariant, MessageKind, NamespacedName,
    NewEvent, Plan, PlanMessage, Project, Resource, ResourcePath, StreamId, Timestamp,
    ValidationSummary,
};
use cleveragents_ports::store::{ReadJob, StoreFuture, StoreJobError, WriteJob};
use cleveragents_ports::{
    Actions, ActorRecords, ActorRow, Applies, BlobHash, Blobs, Claim, Cursor, Decisions, Holder,
    Journal, Lease, LockGrant, LockRecords, LockRequest, LockRow, ModelCalls, OperationOutcome,
    OutcomeCounts, PlanFilter, PlanPage, Plans, Policies, ProfileRow, Projects, Result,
    RunClaimOutcome, Runs, SandboxRecords, StagedBlob, Store, StoreHandle, StoreOperation,
    StreamHead, ToolCalls, Transaction, ValidationRow, Validations,
};
use tokio::sync::watch;

/// The number of times that each operation of [`Transaction`] was called.
#[derive(Debug, Clone, Default)]
pub struct OperationCounts(Arc<Mutex<BTreeMap<&'static str, u32>>>);

impl OperationCounts {
    pub fn of(&self, operation: &str) -> u32 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(operation).copied().unwrap_or(0)
    }

    fn add(&self, operation: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(operation).or_default() += 1;
    }
}

/// Passes everything to another store and counts.
#[derive(Debug)]
pub struct CountingStore {
    inner: Arc<dyn Store>,
    counts: OperationCounts,
}

impl CountingStore {
    /// Returns a handle on `inner` and the counts of what is done through it.
    pub fn handle(inner: Arc<dyn Store>) -> (StoreHandle, OperationCounts) {
        let counts = OperationCounts::default();
        let store = Self {
            inner,
            counts: counts.clone(),
        };
        (StoreHandle::new(Arc::new(store)), counts)
    }
}

impl Store for CountingStore {
    fn write(
        &self,
        operation: StoreOperation,
        job: WriteJob,
    ) -> StoreFuture<String, StoreJobError> {
        let counts = self.counts.clone();
        let counted = move |inner: &mut dyn Transaction| {
            let counts = &counts;
            job(&mut CountingTransaction { inner, counts })
        };
        self.inner.write(operation, Box::new(counted))
    }

    fn read(&self, job: ReadJob) -> StoreFuture<Box<dyn Any + Send>, StoreJobError> {
        let counts = self.counts.clone();
        let counted = move |inner: &mut dyn Transaction| {
            let counts = &counts;
            job(&mut CountingTransaction { inner, counts })
        };
        self.inner.read(Box::new(counted))
    }

    fn stage_blob(self: Arc<Self>, bytes: Vec<u8>) -> StoreFuture<StagedBlob> {
        Arc::clone(&self.inner).stage_blob(bytes)
    }

    fn watch_commits(&self) -> watch::Receiver<u64> {
        self.inner.watch_commits()
    }
}

struct CountingTransaction<'a, 'b> {
    inner: &'a mut (dyn Transaction + 'b),
    counts: &'a OperationCounts,
}

/// Implements a part of [`Transaction`]: each operation is counted and passed on.
macro_rules! delegate {
    ($part:ident { $(fn $operation:ident($($argument:ident: $type:ty),*) -> $result:ty;)+ }) => {
        impl $part for CountingTransaction<'_, '_> {
            $(fn $operation(&mut self $(, $argument: $type)*) -> $result {
                self.counts.add(stringify!($operation));
                self.inner.$operation($($argument),*)
            })+
        }
    };
}

delegate! { Transaction {
    fn now() -> Result<Timestamp>;
} }

delegate! { Journal {
    fn append(stream: StreamId, events: &[NewEvent]) -> Result<StreamHead>;
    fn head(stream: StreamId) -> Result<StreamHead>;
    fn events(stream: StreamId, after: i64, limit: u32) -> Result<Vec<Event>>;
    fn newest_events(stream: StreamId, kinds: &[EventKind], before: i64, limit: u32) -> Result<Vec<Event>>;
    fn all_events(after: Cursor, limit: u32) -> Result<Vec<(Cursor, Event)>>;
    fn erase_payloads(stream: StreamId, sequences: &[i64]) -> Result<u64>;
    fn streams() -> Result<Vec<StreamId>>;
} }

delegate! { Blobs {
    fn put_blob(blob: &StagedBlob, holder: &str) -> Result<()>;
    fn blob(hash: &BlobHash) -> Result<Option<Vec<u8>>>;
    fn release_blobs(holder: &str) -> Result<u64>;
} }

delegate! { Runs {
    fn claim_run(claim: &Claim) -> Result<RunClaimOutcome>;
    fn heartbeat(lease: &Lease, extend: Duration) -> Result<Lease>;
    fn release_run(lease: &Lease) -> Result<()>;
    fn fence(lease: &Lease) -> Result<()>;
    fn run_of(plan: PlanId) -> Result<Option<Holder>>;
    fn run_for_update(plan: PlanId) -> Result<Option<Holder>>;
    fn evict_run(holder: &Holder) -> Result<()>;
    fn runs() -> Result<Vec<Holder>>;
    fn send_message(message: &PlanMessage) -> Result<i64>;
    fn take_messages(plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>>;
    fn pending_messages(plan: PlanId, kinds: &[MessageKind]) -> Result<u64>;
} }

delegate! { LockRecords {
    fn acquire_lock(request: &LockRequest) -> Result<LockGrant>;
    fn renew_lock(grant: &LockGrant, ttl: Duration) -> Result<LockGrant>;
    fn release_lock(grant: &LockGrant) -> Result<()>;
    fn release_all_for_owner(owner: OwnerId) -> Result<u64>;
    fn fence_lock(grant: &LockGrant) -> Result<()>;
    fn locks() -> Result<Vec<LockRow>>;
} }

delegate! { Actions {
    fn insert_action(action: &Action) -> Result<()>;
    fn action(name: &NamespacedName) -> Result<Action>;
    fn update_action(action: &Action) -> Result<i64>;
    fn actions() -> Result<Vec<Action>>;
    fn use_action(action: &Action) -> Result<()>;
    fn use_unregistered_action(name: &NamespacedName, content_hash: &str, plan: PlanId) -> Result<()>;
    fn action_uses() -> Result<BTreeMap<ActionId, u64>>;
} }

delegate! { ActorRecords {
    fn insert_actor(row: &ActorRow) -> Result<()>;
    fn replace_actor(row: &ActorRow) -> Result<i64>;
    fn actor(name: &NamespacedName) -> Result<ActorRow>;
    fn actors() -> Result<Vec<ActorRow>>;
    fn delete_actor(row: &ActorRow) -> Result<()>;
} }

delegate! { Projects {
    fn insert_project(project: &Project) -> Result<()>;
    fn project(name: &NamespacedName) -> Result<Project>;
    fn lock_project(name: &NamespacedName) -> Result<Project>;
    fn update_project(project: &Project) -> Result<i64>;
    fn delete_project(project: &Project) -> Result<()>;
    fn projects() -> Result<Vec<Project>>;
    fn insert_resource(resource: &Resource) -> Result<()>;
    fn resource(name: &NamespacedName) -> Result<Resource>;
    fn resources() -> Result<Vec<Resource>>;
    fn delete_resource(resource: &Resource) -> Result<()>;
    fn link_resource(project: &NamespacedName, resource: &NamespacedName) -> Result<u64>;
    fn unlink_resource(project: &NamespacedName, resource: &NamespacedName) -> Result<u64>;
    fn projects_at(path: &AbsolutePath) -> Result<Vec<NamespacedName>>;
    fn resources_of(project: &NamespacedName) -> Result<Vec<Resource>>;
} }

delegate! { Policies {
    fn insert_invariant(invariant: &Invariant) -> Result<()>;
    fn find_invariant(fragment: &IdFragment) -> Result<Invariant>;
    fn remove_invariant(id: InvariantId) -> Result<Invariant>;
    fn invariants() -> Result<Vec<Invariant>>;
    fn invariants_for(projects: &[NamespacedName], action: Option<&NamespacedName>, plan: Option<PlanId>) -> Result<Vec<Invariant>>;
    fn insert_profile(profile: &AutomationProfile) -> Result<()>;
    fn replace_profile(row: &ProfileRow) -> Result<i64>;
    fn profile(name: &NamespacedName) -> Result<ProfileRow>;
    fn profiles() -> Result<Vec<ProfileRow>>;
    fn insert_consent(consent: &Consent) -> Result<bool>;
    fn consents_to(repository: &AbsolutePath, path: &ResourcePath) -> Result<Vec<Consent>>;
} }

delegate! { Validations {
    fn insert_validation(row: &ValidationRow) -> Result<()>;
    fn replace_validation(row: &ValidationRow) -> Result<i64>;
    fn validation(name: &NamespacedName) -> Result<ValidationRow>;
    fn validations() -> Result<Vec<ValidationRow>>;
    fn delete_validation(row: &ValidationRow) -> Result<()>;
    fn insert_attachment(attachment: &Attachment) -> Result<()>;
    fn find_attachment(fragment: &IdFragment) -> Result<Attachment>;
    fn remove_attachment(id: AttachmentId) -> Result<Attachment>;
    fn attachments() -> Result<Vec<Attachment>>;
    fn attachments_to(resources: &[ResourceId]) -> Result<Vec<Attachment>>;
    fn put_validation_run(plan: PlanId, attempt: u32, round: u32, summary: &ValidationSummary) -> Result<()>;
    fn newest_validation_run(plan: PlanId, attempt: u32) -> Result<Option<ValidationSummary>>;
} }

delegate! { Plans {
    fn insert_plan(plan: &Plan) -> Result<()>;
    fn plan(id: PlanId) -> Result<Plan>;
    fn plan_for_update(id: PlanId) -> Result<Plan>;
    fn find_plan(fragment: &IdFragment) -> Result<Plan>;
    fn update_plan(plan: &Plan) -> Result<i64>;
    fn delete_plan(plan: &Plan) -> Result<()>;
    fn plans() -> Result<Vec<Plan>>;
    fn list_plans(filter: &PlanFilter) -> Result<PlanPage>;
    fn insert_strategy(strategy: &StrategyRecord) -> Result<i64>;
    fn newest_strategy(plan: PlanId) -> Result<Option<StrategyRecord>>;
    fn approve_strategy(strategy: &StrategyRecord) -> Result<()>;
    fn record_error(error: &ErrorRecord) -> Result<ErrorRecord>;
    fn errors_of(plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>>;
} }

delegate! { Decisions {
    fn insert_decision(decision: &Decision) -> Result<i64>;
    fn insert_decisions(plan: PlanId, decisions: &[Decision]) -> Result<Vec<i64>>;
    fn decision(id: DecisionId) -> Result<Decision>;
    fn find_decision(fragment: &IdFragment) -> Result<Decision>;
    fn decisions_of(plan: PlanId) -> Result<Vec<Decision>>;
    fn add_influence(plan: PlanId, edge: DecisionEdge) -> Result<()>;
    fn influences_of(plan: PlanId) -> Result<Vec<DecisionEdge>>;
    fn supersede(plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;
    fn reinstate(plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;
    fn insert_correction(correction: &Correction) -> Result<()>;
    fn find_correction(fragment: &IdFragment) -> Result<Correction>;
    fn update_correction(correction: &Correction) -> Result<i64>;
    fn corrections_of(plan: PlanId) -> Result<Vec<Correction>>;
    fn count_outcome(operation: &str, outcome: OperationOutcome) -> Result<OutcomeCounts>;
    fn outcome_counts(operation: &str) -> Result<OutcomeCounts>;
} }

delegate! { SandboxRecords {
    fn insert_sandbox(sandbox: &SandboxRecord) -> Result<()>;
    fn sandbox(id: SandboxId) -> Result<SandboxRecord>;
    fn find_sandbox(fragment: &IdFragment) -> Result<SandboxRecord>;
    fn update_sandbox(sandbox: &SandboxRecord) -> Result<i64>;
    fn sandboxes_of(plan: PlanId) -> Result<Vec<SandboxRecord>>;
    fn list_sandboxes(states: &[SandboxState]) -> Result<Vec<SandboxRecord>>;
    fn insert_checkpoint(checkpoint: &Checkpoint, keep: u32) -> Result<i64>;
    fn find_checkpoint(plan: PlanId, fragment: &IdFragment) -> Result<Checkpoint>;
    fn checkpoints_of(plan: PlanId) -> Result<Vec<Checkpoint>>;
    fn newest_checkpoint(plan: PlanId) -> Result<Option<Checkpoint>>;
    fn redo(plan: PlanId, by: CheckpointId) -> Result<()>;
    fn undo_checkpoints(plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;
} }

delegate! { ToolCalls {
    fn begin_tool_call(call: &NewToolCall) -> Result<ToolCallRecord>;
    fn set_tool_call_process(id: ToolCallId, process: &ProcessIdentity) -> Result<()>;
    fn end_tool_call(id: ToolCallId, end: &ToolCallEnd) -> Result<ToolCallRecord>;
    fn tool_call(id: ToolCallId) -> Result<ToolCallRecord>;
    fn tool_calls_after(plan: PlanId, number: i64, limit: u32) -> Result<Vec<ToolCallRecord>>;
    fn unfinished_tool_calls(plan: PlanId) -> Result<Vec<ToolCallRecord>>;
    fn undo_tool_calls(plan: PlanId, number: i64, by: CheckpointId) -> Result<u64>;
    fn count_tool_calls(plan: PlanId, step: Option<(u32, u32)>) -> Result<u64>;
    fn insert_changeset(changeset: &ChangesetRecord) -> Result<()>;
    fn changeset(id: ChangesetId) -> Result<ChangesetRecord>;
    fn changesets_of(plan: PlanId) -> Result<Vec<ChangesetRecord>>;
    fn record_changes(changeset: ChangesetId, changes: &[NewChange]) -> Result<Vec<ChangeEntry>>;
    fn changes_after(changeset: ChangesetId, after: i64, limit: u32) -> Result<Vec<RecordedChange>>;
    fn close_changeset(id: ChangesetId, at: Timestamp) -> Result<u64>;
    fn undo_changes(plan: PlanId, call_number: i64, by: CheckpointId) -> Result<u64>;
} }

delegate! { ModelCalls {
    fn begin_model_call(call: &NewModelCall) -> Result<ModelCallRecord>;
    fn end_model_call(id: ModelCallId, end: &ModelCallEnd) -> Result<ModelCallRecord>;
    fn model_calls_after(plan: PlanId, number: i64, limit: u32) -> Result<Vec<ModelCallRecord>>;
    fn newest_model_call(plan: PlanId, conversation: &ConversationKey) -> Result<Option<ModelCallRecord>>;
    fn unfinished_model_calls(plan: PlanId) -> Result<Vec<ModelCallRecord>>;
    fn model_totals(plan: PlanId) -> Result<ModelTotals>;
    fn undo_model_calls(plan: PlanId, call_number: i64, by: CheckpointId) -> Result<u64>;
} }

delegate! { Applies {
    fn insert_apply(apply: &ApplyRecord) -> Result<i64>;
    fn apply(id: ApplyId) -> Result<ApplyRecord>;
    fn update_apply(apply: &ApplyRecord) -> Result<i64>;
    fn applies_of(plan: PlanId) -> Result<Vec<ApplyRecord>>;
    fn unfinished_applies() -> Result<Vec<ApplyRecord>>;
} }
