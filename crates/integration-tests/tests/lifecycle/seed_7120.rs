//! Report 7120: a change was recorded in the changeset that was started last, no matter which process had started
//! it, so one of two concurrent callers found its changes in the other's changeset.

use std::collections::BTreeMap;
use std::thread;

use cleveragents_domain::changeset::ChangesetState;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::execution::{Changeset, ExecutionContext};
use cleveragents_integration_tests::execution_samples::{context, creation, store_context};
use cleveragents_integration_tests::recorders::{
    AckedChange, Recorder, RecorderContext, verify_changes,
};
use cleveragents_integration_tests::store_access::run_concurrently;
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, trials,
};
use cleveragents_ports::StoreHandle;

contract! {
    interleaved_changes_stay_in_their_changesets,
    recording_during_another_start_keeps_its_changeset,
    sixteen_threads_on_one_plan_lose_and_misplace_nothing,
    sixteen_threads_on_sixteen_plans_lose_and_misplace_nothing;
    durable: sixteen_stores_on_one_plan_lose_and_misplace_nothing,
}

const THREADS: u32 = 16;

async fn paths(context: &ExecutionContext, changeset: &Changeset) -> Vec<String> {
    let changes = context.changes(changeset.id()).await.unwrap();
    let path = |(place, change): (i64, cleveragents_domain::changeset::RecordedChange)| {
        assert_eq!(change.entry.sequence, place);
        assert_eq!(change.changeset_id, changeset.id());
        change.entry.path.to_string()
    };
    (1..).zip(changes).map(path).collect()
}

/// The reported order: A starts, B starts, A records, B records. With one shared context, and with
/// one context each.
fn interleaved_changes_stay_in_their_changesets(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (first, sandbox) = store_context(&opened.store).await;
        let second = context(&opened.store, first.lease().clone());
        for (of_a, of_b) in [(&first, &first), (&first, &second)] {
            let a = of_a.start_changeset(sandbox, 1, Some(1)).await.unwrap();
            let b = of_b.start_changeset(sandbox, 1, Some(1)).await.unwrap();
            assert_ne!(a.id(), b.id());
            a.record(vec![creation(b"a/1")]).await.unwrap();
            b.record(vec![creation(b"b/1"), creation(b"b/2")])
                .await
                .unwrap();
            a.record(vec![creation(b"a/2")]).await.unwrap();
            // Closing the newest changeset does not affect the earlier one, which is still A's.
            b.close().await.unwrap();
            a.record(vec![creation(b"a/3")]).await.unwrap();
            for reader in [of_a, of_b] {
                assert_eq!(paths(reader, &a).await, ["a/1", "a/2", "a/3"]);
                assert_eq!(paths(reader, &b).await, ["b/1", "b/2"]);
            }
        }
    });
}

/// The reported race: A's start is in progress while B records. B started its changeset long
/// before; A's is the newest when B's change is stored.
fn recording_during_another_start_keeps_its_changeset(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let b = context.start_changeset(sandbox, 1, None).await.unwrap();
        let rounds = trials(100, 5) as usize;
        for round in 0..rounds {
            let started = run_concurrently(8, |task| {
                let (context, b) = (context.clone(), b.clone());
                async move {
                    if task % 2 == 0 {
                        return Some(context.start_changeset(sandbox, 1, None).await.unwrap());
                    }
                    let path = format!("b/{round}/{task}");
                    b.record(vec![creation(path.as_bytes())]).await.unwrap();
                    None
                }
            })
            .await;
            // The changeset that was only started exists and is empty.
            let headers = context.changesets().await.unwrap();
            for a in started.into_iter().flatten() {
                assert!(headers.iter().any(|it| it.id == a.id() && it.entries == 0));
                assert!(paths(&context, &a).await.is_empty());
            }
        }
        let mut wanted: Vec<String> = (0..rounds)
            .flat_map(|round| [1, 3, 5, 7].map(|task| format!("b/{round}/{task}")))
            .collect();
        let mut there = paths(&context, &b).await;
        wanted.sort();
        there.sort();
        assert_eq!(there, wanted);
    });
}

/// The number of changes per thread: 10,000 in total without scaling.
fn changes_per_thread() -> u32 {
    trials(10_000, 800) / THREADS
}

fn sixteen_threads_on_one_plan_lose_and_misplace_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let workplace = block_on(RecorderContext::new(&opened.store));
    // One context shared by all: they differ only in their handles.
    let one = context(&opened.store, workplace.lease.clone());
    race(&opened.store, &vec![(one, workplace); THREADS as usize]);
}

fn sixteen_stores_on_one_plan_lose_and_misplace_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let workplace = block_on(RecorderContext::new(&opened.store));
    let openings: Vec<OpenTestDatabase> = (0..THREADS).map(|_| test_db.open()).collect();
    let each = openings.iter().map(|opening| {
        let one = context(&opening.store, workplace.lease.clone());
        (one, workplace.clone())
    });
    race(&opened.store, &each.collect::<Vec<_>>());
}

fn sixteen_threads_on_sixteen_plans_lose_and_misplace_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mut each = Vec::new();
    for _ in 0..THREADS {
        let workplace = block_on(RecorderContext::new(&opened.store));
        each.push((context(&opened.store, workplace.lease.clone()), workplace));
    }
    race(&opened.store, &each);
}

/// One thread with its own runtime per recorder, all at once.
fn race(store: &StoreHandle, each: &[(ExecutionContext, RecorderContext)]) {
    let count = changes_per_thread();
    let message: Vec<Vec<AckedChange>> = thread::scope(|scope| {
        let work =
            |(thread, (context, place)): (usize, &'_ (ExecutionContext, RecorderContext))| {
                let (context, place) = (context.clone(), place.clone());
                scope.spawn(move || {
                    let recorder = Recorder {
                        worker: 0,
                        thread: thread as u32,
                        count,
                    };
                    let mut message = Vec::new();
                    let work = recorder.run(&context, &place, |it| message.push(it));
                    block_on(work).unwrap();
                    message
                })
            };
        let threads: Vec<_> = each.iter().enumerate().map(work).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    let mut wanted: BTreeMap<PlanId, Vec<AckedChange>> = BTreeMap::new();
    for ((context, _), message) in each.iter().zip(message) {
        assert_eq!(message.len(), count as usize);
        wanted.entry(context.plan()).or_default().extend(message);
    }
    for (plan, mut wanted) in wanted {
        let mut there = block_on(verify_changes(store, plan));
        wanted.sort();
        there.sort();
        assert_eq!(there.len(), wanted.len(), "none is lost, none is twice");
        assert_eq!(there, wanted);
    }
    // Many recorded into many changesets, and all used the shared one.
    for (context, place) in each {
        let headers = block_on(context.changesets()).unwrap();
        let shared = headers.iter().find(|it| it.id == place.shared).unwrap();
        assert_eq!(shared.state, ChangesetState::Open);
        assert!(shared.entries > 0 && headers.len() > 3);
    }
}
