//! Transactions: atomic, idempotent by operation id, and reads from one snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cleveragents_domain::StreamId;
use cleveragents_integration_tests::samples::{action, event, name, owner, stream};
use cleveragents_integration_tests::store_access::{
    TIMEOUT, append, events, read, run_concurrently, try_write, with_timeout, write,
};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, raw_sql};
use cleveragents_ports::{
    Entity, LockRequest, StoreError, StoreHandle, StoreOperation, StreamHead, Transaction,
};

contract! {
    an_error_rolls_back_and_is_returned_unchanged,
    a_panic_rolls_back_only_its_write,
    the_same_operation_again_returns_the_first_result,
    concurrent_repeats_of_an_operation_run_once,
    an_operation_id_cannot_be_reused,
    a_failed_operation_may_be_repeated,
    a_repeated_write_after_cancellation_runs_once,
    every_caller_gets_its_own_answer,
    one_failure_among_many_undoes_only_itself,
    a_read_sees_one_state,
    a_read_cannot_write,
    a_write_may_drop_the_last_store_handle;
    durable:
    the_first_result_outlives_reopening,
    a_committed_write_is_visible_immediately,
    a_swallowed_failure_of_a_statement_fails_the_write,
}

/// An error type of a caller.
#[derive(Debug)]
enum CallerError {
    Refused { at: i64 },
    Store(StoreError),
}

impl From<StoreError> for CallerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn sequences(store: &StoreHandle, stream: StreamId) -> Vec<i64> {
    let events = events(store, stream).await;
    events.iter().map(|event| event.stream_seq).collect()
}

/// Appends and counts its executions.
fn counting_append(
    stream: StreamId,
    runs: &Arc<AtomicUsize>,
) -> impl Fn(&mut dyn Transaction) -> Result<StreamHead, StoreError> + Send + 'static {
    let runs = Arc::clone(runs);
    move |tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.append(stream, &[event(1)])
    }
}

fn an_error_rolls_back_and_is_returned_unchanged(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (stream, sample) = (stream(), action("local/undone", 0));
    block_on(async {
        let refused = opened
            .store
            .write(new_operation("test.refused"), {
                let sample = sample.clone();
                move |tx| -> Result<(), CallerError> {
                    tx.insert_action(&sample)?;
                    let head = tx.append(stream, &[event(1), event(2)])?;
                    Err(CallerError::Refused {
                        at: head.stream_seq,
                    })
                }
            })
            .await;
        assert!(
            matches!(refused, Err(CallerError::Refused { at: 2 })),
            "{refused:?}"
        );
        assert!(sequences(&opened.store, stream).await.is_empty());
        assert!(read(&opened.store, |tx| tx.actions()).await.is_empty());
        assert!(read(&opened.store, |tx| tx.streams()).await.is_empty());

        let stored = opened
            .store
            .write(
                new_operation("test.missing"),
                |tx| -> Result<(), CallerError> {
                    tx.action(&name("local/missing"))?;
                    Ok(())
                },
            )
            .await;
        assert!(
            matches!(&stored, Err(CallerError::Store(StoreError::NotFound { entity: Entity::Action, id })) if id == "local/missing"),
            "{stored:?}"
        );
        assert_eq!(append(&opened.store, stream, 1).await.stream_seq, 1);
    });
}

fn a_panic_rolls_back_only_its_write(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let panicked = try_write(&opened.store, move |tx| -> Result<(), StoreError> {
            tx.append(stream, &[event(2)])?;
            panic!("a panic on purpose")
        })
        .await;
        assert!(
            matches!(&panicked, Err(StoreError::Internal { reason }) if reason == "a transaction panicked and was undone"),
            "{panicked:?}"
        );
        let looked = opened
            .store
            .read(|_| -> Result<(), StoreError> { panic!("another on purpose") })
            .await;
        assert!(
            matches!(looked, Err(StoreError::Internal { .. })),
            "{looked:?}"
        );
        // More writes than the store has threads, to show that all threads survived.
        for n in 2..20 {
            assert_eq!(append(&opened.store, stream, n).await.stream_seq, n);
        }
    });
}

fn the_same_operation_again_returns_the_first_result(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (stream, runs) = (stream(), Arc::new(AtomicUsize::new(0)));
    let operation = new_operation("test.once");
    block_on(async {
        let first = opened
            .store
            .write(operation, counting_append(stream, &runs))
            .await;
        append(&opened.store, stream, 2).await;
        let second = opened
            .store
            .write(operation, counting_append(stream, &runs))
            .await;
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(sequences(&opened.store, stream).await, [1, 2]);
    });
}

fn the_first_result_outlives_reopening(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let (stream, runs) = (stream(), Arc::new(AtomicUsize::new(0)));
    let operation = new_operation("test.once");
    block_on(async {
        let opened = test_db.open();
        let first = opened
            .store
            .write(operation, counting_append(stream, &runs))
            .await;
        drop(opened);
        let again = test_db.open();
        let second = again
            .store
            .write(operation, counting_append(stream, &runs))
            .await;
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(sequences(&again.store, stream).await, [1]);
    });
}

fn concurrent_repeats_of_an_operation_run_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    let operation = new_operation("test.once");
    block_on(async {
        let heads = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                store
                    .write(operation, move |tx| tx.append(stream, &[event(1)]))
                    .await
            }
        })
        .await;
        let heads: Vec<StreamHead> = heads.into_iter().map(Result::unwrap).collect();
        assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
        assert_eq!(heads[0].stream_seq, 1);
        assert_eq!(sequences(&opened.store, stream).await, [1]);
    });
}

fn an_operation_id_cannot_be_reused(backend: Backend) {
    const ODD: &str = "test.\0 é \u{fdd0} 🦀 '; --";
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    let first = new_operation(ODD);
    let second = StoreOperation {
        label: "test.other",
        ..first
    };
    block_on(async {
        let change = move |tx: &mut dyn Transaction| tx.append(stream, &[event(1)]);
        opened.store.write(first, change).await.unwrap();
        let refused: Result<StreamHead, StoreError> = opened.store.write(second, change).await;
        let Err(StoreError::OperationReused {
            id,
            first: before,
            second: now,
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(Some(id), first.id.map(|id| id.to_string()));
        assert_eq!((before.as_str(), now.as_str()), (ODD, "test.other"));
        assert_eq!(sequences(&opened.store, stream).await, [1]);
    });
}

fn a_failed_operation_may_be_repeated(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    let operation = new_operation("test.again");
    block_on(async {
        let failed = opened
            .store
            .write(operation, move |tx| -> Result<StreamHead, CallerError> {
                tx.append(stream, &[event(1)])?;
                Err(CallerError::Refused { at: 1 })
            })
            .await;
        assert!(
            matches!(failed, Err(CallerError::Refused { at: 1 })),
            "{failed:?}"
        );
        let change = move |tx: &mut dyn Transaction| tx.append(stream, &[event(1)]);
        let head: StreamHead = opened.store.write(operation, change).await.unwrap();
        assert_eq!(head.stream_seq, 1);
    });
}

fn a_repeated_write_after_cancellation_runs_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    let operation = new_operation("test.given-up");
    block_on(async {
        let change = move |tx: &mut dyn Transaction| tx.append(stream, &[event(1)]);
        let sent = opened
            .store
            .write::<StreamHead, StoreError, _>(operation, change);
        // Polled once: the task is submitted, then its caller goes away.
        let _ = tokio::time::timeout(Duration::ZERO, sent).await;
        let head: StreamHead = opened.store.write(operation, change).await.unwrap();
        assert_eq!(head.stream_seq, 1);
        assert_eq!(sequences(&opened.store, stream).await, [1]);
    });
}

/// Reports on drop whether its thread is panicking.
struct DropWitness(mpsc::Sender<bool>);

impl Drop for DropWitness {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::panicking());
    }
}

/// The store is then dropped by its own thread, which cannot join itself.
fn a_write_may_drop_the_last_store_handle(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (go, gate) = mpsc::channel::<()>();
    let (witness, ended) = mpsc::channel();
    // In this order: the store is dropped before the witness.
    let held = (opened.store.clone(), DropWitness(witness));
    block_on(async {
        let sent = opened
            .store
            .write::<(), StoreError, _>(new_operation("test.last"), move |_| {
                let _ = (&held, gate.recv());
                Ok(())
            });
        let _ = tokio::time::timeout(Duration::ZERO, sent).await;
    });
    drop(opened);
    go.send(()).unwrap();
    assert_eq!(ended.recv_timeout(TIMEOUT), Ok(false));
}

fn every_caller_gets_its_own_answer(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(300, |number| {
            let store = opened.store.clone();
            async move { write(&store, move |_| Ok(number)).await }
        })
        .await;
        assert_eq!(answers, (0..300).collect::<Vec<_>>());
    });
}

fn one_failure_among_many_undoes_only_itself(backend: Backend) {
    const FAILING: usize = 31;
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let answers = run_concurrently(64, |number| {
            let store = opened.store.clone();
            async move {
                let change = move |tx: &mut dyn Transaction| {
                    let head = tx.append(stream, &[event(number as i64)])?;
                    match number {
                        FAILING => Err(CallerError::Refused { at: 0 }),
                        _ => Ok(head.stream_seq),
                    }
                };
                store.write(new_operation("test.one-of-many"), change).await
            }
        })
        .await;
        let mut won = Vec::new();
        for (number, answer) in answers.into_iter().enumerate() {
            match (number, answer) {
                (FAILING, Err(CallerError::Refused { at: 0 })) => {}
                (_, Ok(place)) => won.push(place),
                (number, other) => panic!("{number}: {other:?}"),
            }
        }
        won.sort_unstable();
        assert_eq!(won, (1..64).collect::<Vec<i64>>());
        assert_eq!(sequences(&opened.store, stream).await, won);
    });
}

fn a_read_sees_one_state(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let (looked, looks) = mpsc::channel();
        let (written, writes) = mpsc::channel::<()>();
        let writes = std::sync::Mutex::new(writes);
        let look = {
            let store = opened.store.clone();
            tokio::spawn(async move {
                read(&store, move |tx| {
                    let before = tx.head(stream)?;
                    looked.send(()).unwrap();
                    // In memory, reads and writes share one queue, so the write runs afterwards.
                    if backend != Backend::Memory {
                        writes.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                    }
                    let events = tx.events(stream, 0, 10)?.len();
                    Ok((before, tx.head(stream)?, events))
                })
                .await
            })
        };
        looks.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(append(&opened.store, stream, 2).await.stream_seq, 2);
        let _ = written.send(());
        let (before, after, count) = with_timeout(look).await.unwrap();
        assert_eq!(before, after);
        assert_eq!((after.stream_seq, count), (1, 1));
        assert_eq!(sequences(&opened.store, stream).await, [1, 2]);
    });
}

fn a_read_cannot_write(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let refused = opened
            .store
            .read(move |tx| tx.append(stream, &[event(2)]))
            .await;
        let left = sequences(&opened.store, stream).await;
        assert_eq!(left, [1], "a read wrote; it was answered {refused:?}");
        assert!(
            matches!(refused, Err(StoreError::NotWritable { .. })),
            "{refused:?}"
        );
        assert_eq!(append(&opened.store, stream, 2).await.stream_seq, 2);
    });
}

fn a_committed_write_is_visible_immediately(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let (one, other) = (test_db.open(), test_db.open());
    let stream = stream();
    block_on(async {
        for n in 1..=20 {
            let (writer, reader) = if n % 2 == 0 {
                (&one, &other)
            } else {
                (&other, &one)
            };
            let head = append(&writer.store, stream, n).await;
            let seen = read(&reader.store, move |tx| tx.head(stream)).await;
            assert_eq!((seen.stream_seq, &seen), (n, &head));
        }
    });
}

/// No operation can be made to fail from inside on every engine, so a table is removed from outside
/// meanwhile. A memory database cannot be accessed from outside.
fn a_swallowed_failure_of_a_statement_fails_the_write(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    let operation = new_operation("test.swallowed");
    let request = LockRequest {
        name: "a".to_owned(),
        owner: owner(),
        node: "here".to_owned(),
        ttl: Duration::from_secs(60),
        dead_holder: None,
    };
    let change = move |tx: &mut dyn Transaction| -> Result<(), StoreError> {
        let _ = tx.append(stream, &[event(1)]);
        let _ = tx.acquire_lock(&request);
        let _ = tx.append(stream, &[event(2)]);
        Ok(())
    };
    block_on(async {
        append(&opened.store, stream, 1).await;
        raw_sql::run_sql(&test_db, "ALTER TABLE locks RENAME TO taken_away");
        for operation in [operation, StoreOperation::idempotent("test.swallowed")] {
            let failed = opened.store.write(operation, change.clone()).await;
            assert!(
                matches!(&failed, Err(StoreError::Internal { reason }) if reason.contains("locks")),
                "{failed:?}"
            );
        }
        assert_eq!(sequences(&opened.store, stream).await, [1]);
        raw_sql::run_sql(&test_db, "ALTER TABLE taken_away RENAME TO locks");
        opened.store.write(operation, change).await.unwrap();
        assert_eq!(sequences(&opened.store, stream).await, [1, 2, 3]);
    });
}
