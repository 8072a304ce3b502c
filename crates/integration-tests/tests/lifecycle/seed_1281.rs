//! Report 1281: actions and plans were lost or overwritten by concurrent callers.
//!
//! Threads with many tasks each create, use and get on one service, on several services of one
//! store, and on several stores of one database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;

use cleveragents_domain::{Action, EventKind, Plan, StreamId};
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, LifecycleError, PlanLifecycle, UseActionRequest,
};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, run_concurrently};
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, trials,
};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Liveness, PlanFilter, StoreError, StoreHandle};

use super::fixture::{LifecycleFixture, draft_named, request};

contract! {
    nothing_is_lost_on_one_service,
    nothing_is_lost_on_several_services_of_one_store;
    durable: nothing_is_lost_across_several_processes,
}

const THREADS: usize = 4;
const TASKS: usize = 8;

/// The answers to one task.
#[derive(Debug, Default)]
struct RaceTaskResult {
    actions: Vec<Action>,
    /// Names that were taken, and their holders.
    refused: Vec<(String, String)>,
    plans: Vec<Plan>,
}

/// The services that race.
#[derive(Clone)]
struct RaceServices {
    plans: PlanLifecycle,
    actions: ActionRegistry,
}

impl RaceServices {
    fn of(opened: &OpenTestDatabase) -> Self {
        let liveness = Arc::clone(&opened.presence) as Arc<dyn Liveness>;
        let (store, ids) = (&opened.store, Arc::new(SystemIds));
        Self {
            plans: PlanLifecycle::new(store.clone(), ids.clone(), liveness),
            actions: ActionRegistry::new(store.clone(), ids),
        }
    }
}

fn nothing_is_lost_on_one_service(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let fixture = block_on(LifecycleFixture::with_samples(&test_db));
    let one = RaceServices::of(&fixture.opened);
    race(&vec![one; THREADS], &fixture.opened.store);
}

fn nothing_is_lost_on_several_services_of_one_store(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let fixture = block_on(LifecycleFixture::with_samples(&test_db));
    let each: Vec<_> = (0..THREADS)
        .map(|_| RaceServices::of(&fixture.opened))
        .collect();
    race(&each, &fixture.opened.store);
}

fn nothing_is_lost_across_several_processes(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let fixture = block_on(LifecycleFixture::with_samples(&test_db));
    let openings: Vec<_> = (0..THREADS).map(|_| test_db.open()).collect();
    let each: Vec<_> = openings.iter().map(RaceServices::of).collect();
    race(&each, &fixture.opened.store);
}

/// Every thread has a service and its own runtime; all tasks use the same names.
fn race(services: &[RaceServices], store: &StoreHandle) {
    let rounds = trials(20, 2) as usize;
    let message: Vec<RaceTaskResult> = thread::scope(|scope| {
        let threads: Vec<_> = services
            .iter()
            .enumerate()
            .map(|(thread, services)| {
                scope.spawn(move || {
                    block_on(run_concurrently(TASKS, |task| {
                        work(services.clone(), format!("{thread}-{task}"), rounds)
                    }))
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.flatten().collect()
    });
    block_on(check(&services[0], store, &message, rounds));
}

async fn work(services: RaceServices, task: String, rounds: usize) -> RaceTaskResult {
    let mut message = RaceTaskResult::default();
    for round in 0..rounds {
        let shared = format!("local/shared-{round}");
        for wanted in [format!("local/own-{task}-{round}"), shared.clone()] {
            match services.actions.create(draft_named(&wanted), &task).await {
                Ok(action) => message.actions.push(action),
                Err(LifecycleError::Store(StoreError::Taken { name, holder, .. })) => {
                    message.refused.push((name, holder));
                }
                Err(other) => panic!("{other} instead of Taken"),
            }
        }
        let request = UseActionRequest {
            action: ActionChoice::Registered(name(&shared)),
            actor: task.clone(),
            ..request()
        };
        let plan = services.plans.use_action(request).await.unwrap();
        assert_eq!(
            services.plans.plan(plan.identity.plan_id).await.unwrap(),
            plan
        );
        let used = services.actions.action(name(&shared)).await.unwrap();
        assert_eq!(used.name, name(&shared));
        message.plans.push(plan);
    }
    message
}

async fn check(
    services: &RaceServices,
    store: &StoreHandle,
    results: &[RaceTaskResult],
    rounds: usize,
) {
    let (found, uses) = services.actions.list().await.unwrap();
    let found: BTreeMap<String, Action> = found
        .into_iter()
        .map(|action| (action.name.to_string(), action))
        .collect();
    let tasks = results.len();
    assert_eq!(tasks, THREADS * TASKS);
    // Each task's own names, one of each shared name, and the existing one.
    assert_eq!(found.len(), tasks * rounds + rounds + 1);
    let made: Vec<&Action> = results.iter().flat_map(|task| &task.actions).collect();
    assert_eq!(made.len(), tasks * rounds + rounds);
    for action in made {
        assert_eq!(found.get(&action.name.to_string()), Some(action));
    }
    let refused: Vec<_> = results.iter().flat_map(|task| &task.refused).collect();
    assert_eq!(refused.len(), (tasks - 1) * rounds);
    for (name, holder) in refused {
        assert_eq!(found[name].id.to_string(), *holder);
    }
    let plans: Vec<&Plan> = results.iter().flat_map(|task| &task.plans).collect();
    let page = services
        .plans
        .list_plans(PlanFilter::default())
        .await
        .unwrap();
    assert_eq!(page.total, (tasks * rounds) as u64);
    let names: BTreeSet<String> = plans.iter().map(|plan| plan.name.to_string()).collect();
    assert_eq!(names.len(), tasks * rounds);
    for plan in plans {
        assert!(page.plans.contains(plan), "{} is lost", plan.name);
        let story = events(store, StreamId::Plan(plan.identity.plan_id)).await;
        assert_eq!(story[0].kind, EventKind::PlanCreated);
    }
    for round in 0..rounds {
        let shared = &found[&format!("local/shared-{round}")];
        assert_eq!(uses[&shared.id], tasks as u64);
    }
    let system = events(store, StreamId::System).await;
    let created = system
        .iter()
        .filter(|event| event.kind == EventKind::ActionCreated);
    assert_eq!(created.count(), tasks * rounds + rounds);
}
