//! Report 7333: of two callers who recorded a plan's first error at once, one lost its record with
//! the history that the other overwrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{DecisionType, ErrorCategory, ErrorRecord, EventKind, StreamId};
use cleveragents_engine::recovery::Trouble;
use cleveragents_proof::verbs::{events, read, together};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::history::payload;
use super::scene::Scene;

contract! {
    all_that_thirty_two_record_for_a_new_plan_is_found;
    durable: all_that_several_openings_record_for_a_new_plan_is_found,
}

const TASKS: usize = 32;

fn trouble(message: &str) -> Trouble {
    Trouble {
        category: ErrorCategory::Timeout,
        message: message.to_owned(),
        step: Some(1),
        cause_chain: vec!["reset by peer".to_owned()],
    }
}

fn all_that_thirty_two_record_for_a_new_plan_is_found(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        race(&[Arc::new(Scene::furnished(&place).await)]).await;
    });
}

fn all_that_several_openings_record_for_a_new_plan_is_found(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let mut scenes = vec![Arc::new(Scene::furnished(&place).await)];
        scenes.extend((0..3).map(|_| Arc::new(Scene::open(&place))));
        race(&scenes).await;
    });
}

/// Everybody records two errors for a plan that has none: one of its own and one of everybody's,
/// half of them the other way about.
async fn race(scenes: &[Arc<Scene>]) {
    for _ in 0..trials(50, 3) {
        let plan = scenes[0].new_plan().await.identity.plan_id;
        let answers = together(TASKS, |task| {
            let scene = Arc::clone(&scenes[task % scenes.len()]);
            async move {
                let mut messages = [format!("task {task}"), "everybody's".to_owned()];
                if task % 2 == 0 {
                    messages.reverse();
                }
                let mut recorded = Vec::new();
                for message in messages {
                    let answer = scene.recovery.record(plan, trouble(&message), "eva").await;
                    recorded.push(answer.unwrap());
                }
                recorded
            }
        })
        .await;
        let recorded: Vec<ErrorRecord> = answers.into_iter().flatten().collect();
        check(&scenes[scenes.len() - 1], plan, &recorded).await;
    }
}

async fn check(scene: &Scene, plan: PlanId, recorded: &[ErrorRecord]) {
    let found = scene.recovery.history(plan).await.unwrap();
    let wanted: BTreeSet<String> = (0..TASKS)
        .map(|task| format!("task {task}"))
        .chain(["everybody's".to_owned()])
        .collect();
    let messages: BTreeSet<String> = found.iter().map(|it| it.message.clone()).collect();
    assert_eq!((messages, found.len()), (wanted, TASKS + 1));
    let counted: u64 = found.iter().map(|error| error.occurrences).sum();
    assert_eq!(counted, recorded.len() as u64);
    // One order without gaps, and no two callers were told the same.
    let places: Vec<i64> = found.iter().filter_map(|error| error.sequence).collect();
    assert_eq!(places, (1..=TASKS as i64 + 1).collect::<Vec<_>>());
    let told: BTreeSet<_> = recorded
        .iter()
        .map(|error| (error.sequence, error.occurrences))
        .collect();
    assert_eq!(told.len(), recorded.len());
    // The journal tells each record once, in the same order, and each recovery once.
    let story = events(&scene.opened.store, StreamId::Plan(plan)).await;
    let mut newest: BTreeMap<Option<i64>, u64> = BTreeMap::new();
    let mut records = 0;
    for event in story
        .iter()
        .filter(|it| it.kind == EventKind::ErrorRecorded)
    {
        let error: ErrorRecord = payload(event);
        let count = newest.entry(error.sequence).or_default();
        *count += 1;
        assert_eq!(error.occurrences, *count);
        assert_eq!(newest.len() as i64, newest.keys().last().unwrap().unwrap());
        records += 1;
    }
    assert_eq!(records, recorded.len());
    let decisions = read(&scene.opened.store, move |unit| unit.decisions_of(plan)).await;
    let recoveries = decisions
        .iter()
        .filter(|it| it.decision_type == DecisionType::ErrorRecovery);
    assert_eq!(recoveries.count(), found.len());
}
