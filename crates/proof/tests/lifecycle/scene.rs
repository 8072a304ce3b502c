//! A furnished database with the services on it.

use std::sync::Arc;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{
    Base, BuiltIn, NamespacedName, Phase, Plan, ProfileName, Project, Resource, StreamId,
};
use cleveragents_engine::confidence::ConfidenceService;
use cleveragents_engine::decisions::DecisionService;
use cleveragents_engine::definitions::{ActionDraft, Source, read_action};
use cleveragents_engine::lifecycle::{
    ActionChoice, LifecycleError, PlanLifecycle, Surroundings, UseRequest,
};
use cleveragents_engine::ports::{Liveness, Slots, StoreError, StoreHandle, Verdict};
use cleveragents_engine::recovery::ErrorRecovery;
use cleveragents_engine::runs::{Outcome, RunLease, RunService};
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::lifecycle_samples::{project, resource};
use cleveragents_proof::samples::{name, owner};
use cleveragents_proof::verbs::{events, read, write};
use cleveragents_proof::{Opened, Place};

use super::history::replay;

/// One process's view of a place: its opening, and the services on it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) opened: Opened,
    pub(crate) lifecycle: PlanLifecycle,
    pub(crate) runs: RunService,
    pub(crate) recovery: ErrorRecovery,
    pub(crate) decisions: DecisionService,
    pub(crate) confidence: ConfidenceService,
}

impl Scene {
    /// The first to open the place, who brings what plans need.
    pub(crate) async fn furnished(place: &Place) -> Self {
        let scene = Self::open(place);
        furnish(&scene.opened.store).await;
        scene
    }

    pub(crate) fn open(place: &Place) -> Self {
        let opened = place.open();
        let liveness = Arc::clone(&opened.presence) as Arc<dyn Liveness>;
        Self::with(opened, liveness)
    }

    /// One who takes every owner for dead, so that only the plan's row decides.
    pub(crate) fn open_believing_all_dead(place: &Place) -> Self {
        let opened = place.open();
        let node = opened.presence.node().to_owned();
        Self::with(opened, Arc::new(AllDead { node }))
    }

    fn with(opened: Opened, liveness: Arc<dyn Liveness>) -> Self {
        let (store, ids) = (opened.store.clone(), Arc::new(SystemIds));
        Self {
            lifecycle: PlanLifecycle::new(store.clone(), ids.clone(), Arc::clone(&liveness)),
            decisions: DecisionService::new(store.clone(), ids.clone(), Arc::clone(&liveness)),
            runs: RunService::new(store.clone(), ids.clone(), liveness, opened.owner),
            recovery: ErrorRecovery::new(store.clone(), ids.clone()),
            confidence: ConfidenceService::new(store, ids),
            opened,
        }
    }

    /// The decisions as one sees them who takes every owner for dead.
    pub(crate) fn mistaken_decisions(&self) -> DecisionService {
        let node = self.opened.presence.node().to_owned();
        let store = self.opened.store.clone();
        DecisionService::new(store, Arc::new(SystemIds), Arc::new(AllDead { node }))
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.opened.owner
    }

    pub(crate) async fn claim(&self, plan: PlanId) -> RunLease {
        let claimed = self.runs.claim(plan, Phase::Execute, Slots::Shared).await;
        match claimed.unwrap() {
            Outcome::Won(lease) => lease,
            other => panic!("{other:?} instead of a lease"),
        }
    }

    /// A lease that another opening got because it took the holder of `old` for dead.
    pub(crate) async fn take_over(&self, old: &RunLease) -> RunLease {
        let node = self.opened.presence.node().to_owned();
        let (store, ids) = (self.opened.store.clone(), Arc::new(SystemIds));
        let runs = RunService::new(store, ids, Arc::new(AllDead { node }), owner());
        let claim = runs.claim(old.lease().plan, Phase::Execute, Slots::Shared);
        match claim.await.unwrap() {
            Outcome::Won(lease) => lease,
            other => panic!("{other:?} instead of a lease"),
        }
    }

    /// A plan of the sample action.
    pub(crate) async fn new_plan(&self) -> Plan {
        self.lifecycle.use_action(request()).await.unwrap()
    }

    pub(crate) async fn plan(&self, id: PlanId) -> Plan {
        self.lifecycle.plan(id).await.unwrap()
    }

    /// The journal's moves lead to where the plan stands.
    pub(crate) async fn assert_journal_agrees(&self, id: PlanId) {
        let told = events(&self.opened.store, StreamId::Plan(id)).await;
        let replayed = replay(&told, Default::default());
        assert_eq!(replayed.position, self.plan(id).await.position);
    }
}

/// Everybody of this node is dead, which is not true.
#[derive(Debug)]
pub(crate) struct AllDead {
    pub(crate) node: String,
}

impl Liveness for AllDead {
    fn node(&self) -> &str {
        &self.node
    }

    fn verdict(&self, _: OwnerId) -> Verdict {
        Verdict::Dead
    }

    fn keep_proof(&self) {}
}

/// A world in which everything is there.
#[derive(Debug)]
pub(crate) struct AllThere;

impl Surroundings for AllThere {
    fn actor(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn tool(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn readable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn sandboxed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn checkpointed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }
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

/// The draft that `ACTION` with more lines reads as.
pub(crate) fn draft(more: &str) -> ActionDraft {
    let text = format!("{ACTION}{more}");
    read_action(&Source::new("lint.yaml", &text), &|_| None).unwrap()
}

/// The sample action under another name.
pub(crate) fn named(text: &str) -> ActionDraft {
    ActionDraft {
        name: name(text),
        ..draft("")
    }
}

/// A request that is fulfilled.
pub(crate) fn request() -> UseRequest {
    UseRequest {
        action: ActionChoice::Registered(name("local/lint")),
        projects: vec![name("local/shop")],
        arguments: vec!["branch=main".to_owned()],
        automation_profile: None,
        default_profile: ProfileName::BuiltIn(BuiltIn::Supervised),
        repository_profile: None,
        invariants: vec!["no new dependencies".to_owned()],
        strategy_actor: None,
        execution_actor: None,
        base: Base::Head,
        idempotency_key: None,
        max_usd: None,
        actor: "eva".to_owned(),
    }
}

/// Stores a project that names no profile.
pub(crate) async fn store_project(store: &StoreHandle, text: &str) {
    let project = Project {
        automation_profile: None,
        ..project(text, 0)
    };
    write(store, move |unit| unit.insert_project(&project)).await;
}

/// The action `local/lint` and the project `local/shop` with a resource.
async fn furnish(store: &StoreHandle) {
    store_project(store, "local/shop").await;
    let action = draft("").into_action(
        "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
        Default::default(),
    );
    let folder = resource("local/folder", b"/srv/shop", 0);
    write(store, move |unit| {
        unit.insert_action(&action)?;
        unit.insert_resource(&folder)?;
        unit.link_resource(&name("local/shop"), &folder.name)
    })
    .await;
}

/// How many rows and events there are: what a refused write must not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Census {
    plans: usize,
    uses: u64,
    streams: usize,
    system: i64,
}

pub(crate) async fn census(store: &StoreHandle) -> Census {
    read(store, |unit| {
        Ok(Census {
            plans: unit.plans()?.len(),
            uses: unit.action_uses()?.values().sum(),
            streams: unit.streams()?.len(),
            system: unit.head(StreamId::System)?.stream_seq,
        })
    })
    .await
}

/// The refusal of the store behind an answer.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, LifecycleError>) -> StoreError {
    match answer {
        Err(LifecycleError::Store(error)) => error,
        other => panic!("{other:?} instead of a refusal of the store"),
    }
}
