//! Report 7333: of two callers that recorded a plan's first error concurrently, one lost its record
//! because the other overwrote the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleveragents_domain::event::payloads::ErrorRecorded;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{DecisionType, ErrorCategory, EventKind, StreamId};
use cleveragents_engine::error_history::NewErrorRecord;
use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::store_access::{events, payload_of, read, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};

use super::fixture::LifecycleFixture;

contract! {
    concurrent_first_errors_of_tasks_are_stored;
    durable: concurrent_first_errors_of_stores_are_stored,
    concurrent_first_errors_of_processes_are_stored,
}

const TASKS: usize = 32;

fn new_error(message: &str) -> NewErrorRecord {
    NewErrorRecord {
        category: ErrorCategory::Timeout,
        message: message.to_owned(),
        step: Some(1),
        cause_chain: vec!["reset by peer".to_owned()],
    }
}

fn concurrent_first_errors_of_tasks_are_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        race(&[Arc::new(LifecycleFixture::with_samples(&test_db).await)]).await;
    });
}

fn concurrent_first_errors_of_stores_are_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let mut scenes = vec![Arc::new(LifecycleFixture::with_samples(&test_db).await)];
        scenes.extend((0..3).map(|_| Arc::new(LifecycleFixture::open(&test_db))));
        race(&scenes).await;
    });
}

/// Each process records two errors for a plan that has none: one of its own and a common one, half of
/// them in the opposite order.
async fn race(scenes: &[Arc<LifecycleFixture>]) {
    for _ in 0..trials(50, 3) {
        let plan = scenes[0].new_plan().await.identity.plan_id;
        let answers = run_concurrently(TASKS, |task| {
            let fixture = Arc::clone(&scenes[task % scenes.len()]);
            async move {
                let mut messages = [format!("task {task}"), "everybody's".to_owned()];
                if task % 2 == 0 {
                    messages.reverse();
                }
                let mut recorded = Vec::new();
                for message in messages {
                    let answer = fixture
                        .recovery
                        .record(plan, new_error(&message), "eva")
                        .await;
                    recorded.push(answer.unwrap());
                }
                recorded
            }
        })
        .await;
        let recorded = answers.into_iter().flatten();
        let recorded: Vec<(i64, u64)> = recorded
            .map(|error| (error.sequence.unwrap(), error.occurrences))
            .collect();
        let own = (0..TASKS).map(|task| format!("task {task}")).collect();
        check(&scenes[scenes.len() - 1], plan, own, &recorded).await;
    }
}

const PROCESSES: usize = 4;

/// The same with threads of several processes.
fn concurrent_first_errors_of_processes_are_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let fixture = block_on(LifecycleFixture::with_samples(&test_db));
    let threads = TASKS / PROCESSES;
    let start = |seed: usize| {
        let job = HammerJob {
            threads: threads as u32,
            seed: seed as u32,
            ..HammerJob::new("record-errors")
        };
        Hammer::start(&[env!("CARGO_BIN_EXE_hammer")], &test_db, &job)
    };
    let mut hammers: Vec<Hammer> = (0..PROCESSES).map(start).collect();
    for hammer in &mut hammers {
        hammer.expect_line("ready");
    }
    for round in 0..trials(50, 3) as usize {
        let plan = block_on(fixture.new_plan()).identity.plan_id;
        for hammer in &mut hammers {
            hammer.send_line(&plan.to_string());
        }
        let mut recorded = Vec::new();
        for hammer in &mut hammers {
            for _ in 0..threads {
                let line = hammer.expect_line("recorded ");
                let pairs = line.split(' ').skip(1).map(|pair| {
                    let (place, count) = pair.split_once(':').unwrap();
                    (place.parse().unwrap(), count.parse().unwrap())
                });
                recorded.extend(pairs);
            }
        }
        let numbers = threads * round..threads * (round + 1);
        let own = (0..PROCESSES).flat_map(|seed| {
            numbers
                .clone()
                .map(move |n| format!("process {seed} error {n}"))
        });
        block_on(check(&fixture, plan, own.collect(), &recorded));
    }
}

/// Everything recorded is present: each of `own` and the common error. `recorded` is what the
/// callers were returned, the number and the count of each.
async fn check(
    fixture: &LifecycleFixture,
    plan: PlanId,
    own: BTreeSet<String>,
    recorded: &[(i64, u64)],
) {
    let found = fixture.recovery.history(plan).await.unwrap();
    assert_eq!(own.len(), TASKS);
    let mut wanted = own;
    wanted.insert("everybody's".to_owned());
    let messages: BTreeSet<String> = found.iter().map(|it| it.message.clone()).collect();
    assert_eq!((messages, found.len()), (wanted, TASKS + 1));
    let counted: u64 = found.iter().map(|error| error.occurrences).sum();
    assert_eq!(counted, recorded.len() as u64);
    // One order without gaps, and no two callers got the same answer.
    let places: Vec<i64> = found.iter().filter_map(|error| error.sequence).collect();
    assert_eq!(places, (1..=TASKS as i64 + 1).collect::<Vec<_>>());
    let text: BTreeSet<_> = recorded.iter().collect();
    assert_eq!(text.len(), recorded.len());
    // The journal has each record once, in the same order, and each recovery once.
    let story = events(&fixture.opened.store, StreamId::Plan(plan)).await;
    let mut newest: BTreeMap<Option<i64>, u64> = BTreeMap::new();
    let mut records = 0;
    for event in story
        .iter()
        .filter(|it| it.kind == EventKind::ErrorRecorded)
    {
        let ErrorRecorded(error) = payload_of(event);
        let count = newest.entry(error.sequence).or_default();
        *count += 1;
        assert_eq!(error.occurrences, *count);
        assert_eq!(newest.len() as i64, newest.keys().last().unwrap().unwrap());
        records += 1;
    }
    assert_eq!(records, recorded.len());
    let decisions = read(&fixture.opened.store, move |tx| tx.decisions_of(plan)).await;
    let recoveries = decisions
        .iter()
        .filter(|it| it.decision_type == DecisionType::ErrorRecovery);
    assert_eq!(recoveries.count(), found.len());
}
