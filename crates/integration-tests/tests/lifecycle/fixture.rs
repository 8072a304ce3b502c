//! A database with sample data, and the services on it.

use std::sync::Arc;

use cleveragents_definitions::{ActionDraft, DefinitionSource, read_action};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{
    BaseSource, BuiltInProfile, Phase, Plan, ProfileName, Project, StreamId,
};
use cleveragents_engine::confidence::ConfidenceService;
use cleveragents_engine::decisions::DecisionService;
use cleveragents_engine::error_history::ErrorRecovery;
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, LifecycleError, PlanLifecycle, UseActionRequest,
};
use cleveragents_engine::runs::{RunLease, RunService};
use cleveragents_integration_tests::lifecycle_samples::{project, resource};
use cleveragents_integration_tests::plan_driver::{PassingProbe, claim_run};
use cleveragents_integration_tests::samples::{name, owner};
use cleveragents_integration_tests::store_access::{events, read, write};
use cleveragents_integration_tests::{OpenTestDatabase, TestDatabase};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Liveness, OwnerStatus, StoreError, StoreHandle};

use super::history::replay;

/// One process's view of a test database: its open store and the services on it.
#[derive(Debug)]
pub(crate) struct LifecycleFixture {
    pub(crate) opened: OpenTestDatabase,
    pub(crate) lifecycle: PlanLifecycle,
    pub(crate) actions: ActionRegistry,
    pub(crate) runs: RunService,
    pub(crate) recovery: ErrorRecovery,
    pub(crate) decisions: DecisionService,
    pub(crate) confidence: ConfidenceService,
}

impl LifecycleFixture {
    /// Opens the database for the first time and stores what plans need.
    pub(crate) async fn with_samples(test_db: &TestDatabase) -> Self {
        let fixture = Self::open(test_db);
        insert_samples(&fixture.opened.store).await;
        fixture
    }

    pub(crate) fn open(test_db: &TestDatabase) -> Self {
        let opened = test_db.open();
        let liveness = Arc::clone(&opened.presence) as Arc<dyn Liveness>;
        Self::new(opened, liveness)
    }

    /// A view that assumes every owner dead, so that only the plan's row decides.
    pub(crate) fn open_with_all_dead(test_db: &TestDatabase) -> Self {
        let opened = test_db.open();
        let node = opened.presence.node().to_owned();
        Self::new(opened, Arc::new(AllDeadLiveness { node }))
    }

    fn new(opened: OpenTestDatabase, liveness: Arc<dyn Liveness>) -> Self {
        let (store, ids) = (opened.store.clone(), Arc::new(SystemIds));
        Self {
            lifecycle: PlanLifecycle::new(store.clone(), ids.clone(), Arc::clone(&liveness)),
            actions: ActionRegistry::new(store.clone(), ids.clone()),
            decisions: DecisionService::new(store.clone(), ids.clone(), Arc::clone(&liveness)),
            runs: RunService::new(store.clone(), ids.clone(), liveness, opened.owner),
            recovery: ErrorRecovery::new(store.clone(), ids.clone()),
            confidence: ConfidenceService::new(store, ids),
            opened,
        }
    }

    /// The decision service of a caller that assumes every owner dead.
    pub(crate) fn decisions_with_all_dead(&self) -> DecisionService {
        let node = self.opened.presence.node().to_owned();
        let store = self.opened.store.clone();
        DecisionService::new(
            store,
            Arc::new(SystemIds),
            Arc::new(AllDeadLiveness { node }),
        )
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.opened.owner
    }

    pub(crate) async fn claim(&self, plan: PlanId) -> RunLease {
        claim_run(&self.runs, plan, Phase::Execute).await
    }

    /// The lease of another caller that assumed the holder of `old` dead.
    pub(crate) async fn take_over(&self, old: &RunLease) -> RunLease {
        let node = self.opened.presence.node().to_owned();
        let (store, ids) = (self.opened.store.clone(), Arc::new(SystemIds));
        let runs = RunService::new(store, ids, Arc::new(AllDeadLiveness { node }), owner());
        claim_run(&runs, old.lease().plan, Phase::Execute).await
    }

    /// Starts the current phase in the name of the owner.
    pub(crate) async fn start(&self, run: &RunLease) -> Plan {
        let owner = self.lifecycle.as_owner(run);
        owner.start(&PassingProbe).await.unwrap()
    }

    /// Records in the name of the owner that the current phase failed.
    pub(crate) async fn fail(&self, run: &RunLease, message: &str) -> Plan {
        self.lifecycle.as_owner(run).fail(message).await.unwrap()
    }

    /// A plan of the sample action.
    pub(crate) async fn new_plan(&self) -> Plan {
        self.lifecycle.use_action(request()).await.unwrap()
    }

    pub(crate) async fn plan(&self, id: PlanId) -> Plan {
        self.lifecycle.plan(id).await.unwrap()
    }

    /// The journal's moves lead to the plan's position.
    pub(crate) async fn assert_journal_agrees(&self, id: PlanId) {
        let message = events(&self.opened.store, StreamId::Plan(id)).await;
        let replayed = replay(&message, Default::default());
        assert_eq!(replayed.position, self.plan(id).await.position);
    }
}

/// Reports every owner of this node as dead, which is not true.
#[derive(Debug)]
pub(crate) struct AllDeadLiveness {
    pub(crate) node: String,
}

impl Liveness for AllDeadLiveness {
    fn node(&self) -> &str {
        &self.node
    }

    fn owner_status(&self, _: OwnerId) -> OwnerStatus {
        OwnerStatus::Dead
    }

    fn process_id(&self, _: OwnerId) -> Option<u32> {
        None
    }

    fn keep_lock_file(&self) {}
}

pub(crate) const ACTION: &str = "\
name: local/lint
description: Lint {{ args.branch }}
strategy_actor: builtin/planner
execution_actor: builtin/worker
definition_of_done: '{{ args.branch }} is clean'
arguments:
  - {name: branch, type: string, required: true}
  - {name: depth, type: integer, default: 3}
invariants: ['keep {{ args.branch }}']
";

/// The draft parsed from `ACTION` with additional lines.
pub(crate) fn draft(more: &str) -> ActionDraft {
    let text = format!("{ACTION}{more}");
    read_action(&DefinitionSource::new("lint.yaml", &text), &|_| None).unwrap()
}

/// The sample action under another name.
pub(crate) fn draft_named(text: &str) -> ActionDraft {
    ActionDraft {
        name: name(text),
        ..draft("")
    }
}

/// A valid request.
pub(crate) fn request() -> UseActionRequest {
    UseActionRequest {
        action: ActionChoice::Registered(name("local/lint")),
        projects: vec![name("local/shop")],
        arguments: vec!["branch=main".to_owned()],
        automation_profile: None,
        default_profile: ProfileName::BuiltIn(BuiltInProfile::Supervised),
        repository_profile: None,
        invariants: vec!["no new dependencies".to_owned()],
        strategy_actor: None,
        execution_actor: None,
        base: BaseSource::Head,
        idempotency_key: None,
        max_usd: None,
        destination: None,
        actor: "eva".to_owned(),
    }
}

/// Stores a project without a profile.
pub(crate) async fn store_project(store: &StoreHandle, text: &str) {
    let project = Project {
        automation_profile: None,
        ..project(text, 0)
    };
    write(store, move |tx| tx.insert_project(&project)).await;
}

/// Stores the action `local/lint` and the project `local/shop` with a resource.
async fn insert_samples(store: &StoreHandle) {
    store_project(store, "local/shop").await;
    let action = draft("").into_action(
        "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
        Default::default(),
    );
    let folder = resource("local/folder", b"/srv/shop", 0);
    write(store, move |tx| {
        tx.insert_action(&action)?;
        tx.insert_resource(&folder)?;
        tx.link_resource(&name("local/shop"), &folder.name)
    })
    .await;
}

/// The number of rows and events, which a refused write must not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowCounts {
    plans: usize,
    uses: u64,
    streams: usize,
    system: i64,
}

pub(crate) async fn count_rows(store: &StoreHandle) -> RowCounts {
    read(store, |tx| {
        Ok(RowCounts {
            plans: tx.plans()?.len(),
            uses: tx.action_uses()?.values().sum(),
            streams: tx.streams()?.len(),
            system: tx.head(StreamId::System)?.stream_seq,
        })
    })
    .await
}

/// The store's refusal inside a result.
#[track_caller]
pub(crate) fn store_error<T: std::fmt::Debug>(answer: Result<T, LifecycleError>) -> StoreError {
    match answer {
        Err(LifecycleError::Store(error)) => error,
        other => panic!("{other:?} instead of a refusal of the store"),
    }
}
