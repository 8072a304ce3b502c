//! Sample values of running plans with every field set, as in [`samples`](crate::samples).

#![expect(
    clippy::expect_used,
    reason = "a sample that is not legal must fail the test"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::apply_intent::{
    AppliedResult, ApplyEffect, ApplyIntent, CommitMetadata, ContentHash, FilesEffect, PathChange,
    PathState,
};
use cleveragents_domain::apply_record::{
    ApplyDirection, ApplyPart, ApplyPartState, ApplyRecord, ApplyState, Destination,
};
use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange};
use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::conflict::{Conflict, ConflictReason};
use cleveragents_domain::id::{
    ApplyId, AttachmentId, ChangesetId, CheckpointId, DecisionId, ModelCallId, PlanId, ResourceId,
    SandboxId, ToolCallId,
};
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::model_call::{ConversationKey, ModelSpend, NewModelCall};
use cleveragents_domain::process::{Confinement, ProcessIdentity};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::strategy::{Strategy, StrategyRecord, StrategyStep};
use cleveragents_domain::tool_call::NewToolCall;
use cleveragents_domain::validation::{AttachmentScopeKind, ValidationMode, ValidationResult};
use cleveragents_domain::{
    AbsolutePath, BaseSource, FileOperation, FileState, Phase, ResourcePath, ResourceType, TreeId,
    ValidationSummary,
};
use cleveragents_engine::execution::ExecutionContext;
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Claim, Ids, Lease, RunClaimOutcome, Slots, StoreHandle};
use serde_json::json;

use crate::lifecycle_samples::store_sample_plan;
use crate::samples::{at, name, owner};
use crate::store_access::write;

/// A text that is hard to store.
const ODD: &str = "kein \0 Netz \u{fdd0}0 – \"so\"\n";

/// Longer than any test runs.
const LEASE: Duration = Duration::from_secs(3600);

/// The tree all of whose digits are `digit`, with empty directories.
pub fn tree(digit: char) -> TreeId {
    let digits = |count| digit.to_string().repeat(count);
    TreeId::new(&digits(40), Some(&digits(64))).expect("a tree")
}

/// The record of a sandbox that is about to be created, with time [`at`]`(seconds)`.
pub fn sandbox(plan_id: PlanId, seconds: i64) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId::new(SystemIds.next()),
        plan_id,
        resource_id: ResourceId::new(SystemIds.next()),
        resource_name: name("local/shop"),
        resource_path: AbsolutePath::from_bytes(&b"/srv/caf\xe9\n%"[..]).expect("a legal path"),
        resource_type: ResourceType::FsDirectory,
        base: BaseSource::Worktree,
        node: Some("laptop".to_owned()),
        state: SandboxState::Creating,
        folder: FolderState::Leaving,
        base_tree: Some(tree('a')),
        base_commit: Some("c".repeat(40)),
        tree: Some(tree('b')),
        warnings: vec![ODD.to_owned()],
        created_at: at(seconds),
        updated_at: at(seconds + 1),
        version: 1,
    }
}

/// Stores a plan with a sandbox and returns their ids.
pub async fn store_sandbox(store: &StoreHandle) -> (PlanId, SandboxId) {
    let plan = store_sample_plan(store).await;
    let sandbox = sandbox(plan, 0);
    let id = sandbox.id;
    write(store, move |tx| tx.insert_sandbox(&sandbox)).await;
    (plan, id)
}

/// Claims the plan's run.
///
/// # Panics
///
/// If it has an owner.
pub async fn claim_run(store: &StoreHandle, plan: PlanId) -> Lease {
    let claim = Claim {
        plan,
        phase: Phase::Execute,
        owner: owner(),
        node: "proof".to_owned(),
        lease: LEASE,
        slots: Slots::Shared,
        dead_owners: Vec::new(),
    };
    match write(store, move |tx| tx.claim_run(&claim)).await {
        RunClaimOutcome::Won(lease) => lease,
        other => panic!("{other:?} instead of a lease"),
    }
}

/// Stores a plan with a sandbox and returns the execution context of its owner.
pub async fn store_context(store: &StoreHandle) -> (ExecutionContext, SandboxId) {
    let (plan, sandbox) = store_sandbox(store).await;
    let lease = claim_run(store, plan).await;
    (context(store, lease), sandbox)
}

pub fn context(store: &StoreHandle, lease: Lease) -> ExecutionContext {
    ExecutionContext::new(store.clone(), Arc::new(SystemIds), lease)
}

/// An open changeset.
pub fn changeset(plan_id: PlanId, sandbox_id: SandboxId) -> ChangesetRecord {
    ChangesetRecord {
        id: ChangesetId::new(SystemIds.next()),
        plan_id,
        sandbox_id,
        attempt: 3,
        step: Some(2),
        state: ChangesetState::Open,
        entries: 0,
        started_at: at(1),
        closed_at: None,
    }
}

/// The creation of a file at `path`.
///
/// # Panics
///
/// If the path is not legal.
pub fn creation(path: &[u8]) -> NewChange {
    NewChange {
        path: ResourcePath::from_bytes(path).expect("a legal path"),
        operation: FileOperation::Create,
        before: None,
        after: Some(file('1')),
        tool_call_id: ToolCallId::new(SystemIds.next()),
        call_number: 1,
        actor: name("prod:team/worker"),
        step: Some(2),
    }
}

/// A file whose hash consists of this digit.
pub fn file(digit: char) -> FileState {
    FileState {
        hash: digit.to_string().repeat(64),
        size: u64::from(u32::MAX) + 1,
        mode: 0o100_755,
    }
}

/// A tool call that is about to start.
pub fn tool_call(plan_id: PlanId, sandbox_id: SandboxId) -> NewToolCall {
    NewToolCall {
        id: ToolCallId::new(SystemIds.next()),
        plan_id,
        attempt: 3,
        step: Some(2),
        decision_id: Some(DecisionId::new(SystemIds.next())),
        turn: 4,
        slot: 5,
        tool: name("builtin/file-write"),
        actor: name("prod:team/worker"),
        sandbox_id,
        input: json!({ "path": "src/%FF", "content": ODD, "mode": null }),
        side_effects: vec!["sends mail".to_owned()],
        tree_before: tree('a'),
    }
}

/// A process started by a tool call.
pub fn process() -> ProcessIdentity {
    ProcessIdentity {
        process_group: 4711,
        started: 1 << 40,
        boot_id: "f7a1-\"boot\"".to_owned(),
        confinement: Confinement::Landlock,
    }
}

pub fn checkpoint(plan_id: PlanId, sandbox_id: SandboxId) -> Checkpoint {
    Checkpoint {
        id: CheckpointId::new(SystemIds.next()),
        plan_id,
        number: 0,
        trigger: CheckpointTrigger::ToolWrite,
        phase: Phase::Execute,
        attempt: 3,
        step: Some(2),
        call_number: 7,
        decision_id: Some(DecisionId::new(SystemIds.next())),
        label: ODD.to_owned(),
        trees: BTreeMap::from([(sandbox_id, tree('d'))]),
        superseded: vec![DecisionId::new(SystemIds.next())],
        created_at: at(2),
        undone_by: None,
    }
}

/// A strategy without approval.
pub fn strategy(plan_id: PlanId) -> StrategyRecord {
    StrategyRecord {
        plan_id,
        number: 0,
        attempt: 3,
        hash: "5".repeat(64),
        strategy: Strategy {
            execution: "a1".repeat(32),
            summary: ODD.to_owned(),
            steps: vec![StrategyStep {
                title: "Write".to_owned(),
                description: "the file".to_owned(),
            }],
        },
        actor: name("builtin/planner"),
        decision_id: DecisionId::new(SystemIds.next()),
        created_at: at(1),
        approved_by: None,
        approved_at: None,
    }
}

/// A change of one file of a folder.
fn apply_intent(plan: PlanId) -> ApplyIntent {
    let root: AbsolutePath = AbsolutePath::from_bytes("/srv/shop").expect("a path");
    let state = PathState {
        mode: 0o100_644,
        object: "a1".repeat(20),
        content: Some(ContentHash {
            hash: "c3".repeat(32),
            size: 3,
        }),
    };
    ApplyIntent {
        version: ApplyIntent::VERSION,
        id: ApplyId::new(SystemIds.next()),
        plan,
        resource: root.clone(),
        resource_type: ResourceType::FsDirectory,
        destination: Destination::Branch("grün".to_owned()),
        changes: vec![PathChange {
            path: ResourcePath::from_bytes("src/a").expect("a path"),
            old: None,
            new: Some(state),
            keeps_edits: false,
        }],
        effect: ApplyEffect::Files(FilesEffect {
            root,
            made: Vec::new(),
            removed: Vec::new(),
        }),
        commit: CommitMetadata {
            name: "Eva".to_owned(),
            email: "eva@localhost".to_owned(),
            seconds: 7,
            message: "m\0".to_owned(),
        },
    }
}

/// The summary of one failed validation with this message.
pub fn validation_summary(message: &str) -> ValidationSummary {
    ValidationSummary::new(vec![ValidationResult {
        validation: name("local/tests"),
        mode: ValidationMode::Required,
        passed: false,
        message: Some(message.to_owned()),
        data: Some(json!({ "none": null })),
        duration_ms: 3,
        attempt: 1,
        attachment_id: AttachmentId::new(SystemIds.next()),
        attachment_resource: name("local/shop"),
        attachment_scope: AttachmentScopeKind::Direct,
        attachment_scope_target: None,
    }])
}

/// An apply attempt that has started.
pub fn apply(plan_id: PlanId, sandbox_id: SandboxId) -> ApplyRecord {
    ApplyRecord {
        id: ApplyId::new(SystemIds.next()),
        plan_id,
        number: 0,
        direction: ApplyDirection::Apply,
        node: "laptop".to_owned(),
        destination: Destination::Branch("grün".to_owned()),
        state: ApplyState::Preparing,
        resources: vec![ApplyPart {
            written: Vec::new(),
            id: ApplyId::new(SystemIds.next()),
            sandbox_id,
            state: ApplyPartState::Ready,
            intent: Some(Box::new(apply_intent(plan_id))),
            result: Some(AppliedResult {
                commit: Some("c".to_owned()),
                reference: None,
                file: None,
            }),
            obstacles: vec![Conflict {
                path: Some(ResourcePath::from_bytes(&b"src/\xff"[..]).expect("a path")),
                place: None,
                reason: ConflictReason::Edited,
            }],
        }],
        created_at: at(1),
        updated_at: at(2),
        version: 1,
    }
}

/// The conversation about a step of the first strategy.
pub fn conversation(step: u32) -> ConversationKey {
    ConversationKey {
        phase: Phase::Execute,
        strategy: 1,
        step,
        round: 0,
    }
}

/// The first model request for the first step of the plan.
pub fn model_call(plan_id: PlanId) -> NewModelCall {
    NewModelCall {
        id: ModelCallId::new(SystemIds.next()),
        plan_id,
        conversation: conversation(1),
        turn: 1,
        actor: name("local/coder"),
        model: ModelChoice {
            provider: "scripted".to_owned(),
            model: ODD.to_owned(),
        },
        request: "d".repeat(64),
        reserved: ModelSpend {
            tokens: 1000,
            usd: Some(0.25),
        },
        maximum: ModelSpend {
            tokens: 2000,
            usd: Some(0.75),
        },
        answer_limit: Some(1500),
        after_call: 0,
    }
}
