//! Transactions: whole or not at all, asked twice but done once, looked at in one state.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cleveragents_domain::StreamId;
use cleveragents_engine::ports::{Head, LockRequest, Operation, StoreError, StoreHandle, Unit};
use cleveragents_proof::place::operation;
use cleveragents_proof::samples::{action, event, name, owner, stream};
use cleveragents_proof::verbs::{LIMIT, append, attempt, events, read, together, within, write};
use cleveragents_proof::{Backend, Place, block_on, contract, outside};

contract! {
    an_error_undoes_rows_and_events_and_comes_back_as_it_was,
    a_panic_undoes_only_itself,
    the_same_operation_again_returns_the_first_result,
    sixteen_who_send_one_operation_share_its_effect,
    an_operation_cannot_become_another,
    a_failed_operation_may_be_repeated,
    a_write_whose_caller_gave_up_is_done_once_when_repeated,
    every_caller_gets_its_own_answer,
    one_failure_among_many_undoes_only_itself,
    a_read_sees_one_state,
    a_read_cannot_write,
    work_that_holds_the_last_of_a_store_ends_it;
    durable:
    the_first_result_outlives_reopening,
    an_answered_write_is_seen_by_others_at_once,
    a_swallowed_failure_of_a_statement_fails_the_write,
}

/// An error of a caller's own.
#[derive(Debug)]
enum Own {
    Refused { at: i64 },
    Store(StoreError),
}

impl From<StoreError> for Own {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn places(store: &StoreHandle, stream: StreamId) -> Vec<i64> {
    let events = events(store, stream).await;
    events.iter().map(|event| event.stream_seq).collect()
}

/// Appends and counts how often that was run.
fn counted(
    stream: StreamId,
    runs: &Arc<AtomicUsize>,
) -> impl Fn(&mut dyn Unit) -> Result<Head, StoreError> + Send + 'static {
    let runs = Arc::clone(runs);
    move |unit| {
        runs.fetch_add(1, Ordering::SeqCst);
        unit.append(stream, &[event(1)])
    }
}

fn an_error_undoes_rows_and_events_and_comes_back_as_it_was(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let (stream, sample) = (stream(), action("local/undone", 0));
    block_on(async {
        let refused = opened
            .store
            .write(operation("test.refused"), {
                let sample = sample.clone();
                move |unit| -> Result<(), Own> {
                    unit.insert_action(&sample)?;
                    let head = unit.append(stream, &[event(1), event(2)])?;
                    Err(Own::Refused {
                        at: head.stream_seq,
                    })
                }
            })
            .await;
        assert!(
            matches!(refused, Err(Own::Refused { at: 2 })),
            "{refused:?}"
        );
        assert!(places(&opened.store, stream).await.is_empty());
        assert!(read(&opened.store, |unit| unit.actions()).await.is_empty());
        assert!(read(&opened.store, |unit| unit.streams()).await.is_empty());

        let stored = opened
            .store
            .write(operation("test.missing"), |unit| -> Result<(), Own> {
                unit.action(&name("local/missing"))?;
                Ok(())
            })
            .await;
        assert!(
            matches!(&stored, Err(Own::Store(StoreError::NotFound { what: "action", id })) if id == "local/missing"),
            "{stored:?}"
        );
        assert_eq!(append(&opened.store, stream, 1).await.stream_seq, 1);
    });
}

fn a_panic_undoes_only_itself(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let panicked = attempt(&opened.store, move |unit| -> Result<(), StoreError> {
            unit.append(stream, &[event(2)])?;
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
        // Every thread of the store has to be alive after that, so more writes than it has.
        for n in 2..20 {
            assert_eq!(append(&opened.store, stream, n).await.stream_seq, n);
        }
    });
}

fn the_same_operation_again_returns_the_first_result(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let (stream, runs) = (stream(), Arc::new(AtomicUsize::new(0)));
    let operation = operation("test.once");
    block_on(async {
        let first = opened.store.write(operation, counted(stream, &runs)).await;
        append(&opened.store, stream, 2).await;
        let second = opened.store.write(operation, counted(stream, &runs)).await;
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(places(&opened.store, stream).await, [1, 2]);
    });
}

fn the_first_result_outlives_reopening(backend: Backend) {
    let place = Place::new(backend);
    let (stream, runs) = (stream(), Arc::new(AtomicUsize::new(0)));
    let operation = operation("test.once");
    block_on(async {
        let opened = place.open();
        let first = opened.store.write(operation, counted(stream, &runs)).await;
        drop(opened);
        let again = place.open();
        let second = again.store.write(operation, counted(stream, &runs)).await;
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(places(&again.store, stream).await, [1]);
    });
}

fn sixteen_who_send_one_operation_share_its_effect(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    let operation = operation("test.once");
    block_on(async {
        let heads = together(16, |_| {
            let store = opened.store.clone();
            async move {
                store
                    .write(operation, move |unit| unit.append(stream, &[event(1)]))
                    .await
            }
        })
        .await;
        let heads: Vec<Head> = heads.into_iter().map(Result::unwrap).collect();
        assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
        assert_eq!(heads[0].stream_seq, 1);
        assert_eq!(places(&opened.store, stream).await, [1]);
    });
}

fn an_operation_cannot_become_another(backend: Backend) {
    const ODD: &str = "test.\0 é \u{fdd0} 🦀 '; --";
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    let first = operation(ODD);
    let second = Operation {
        label: "test.other",
        ..first
    };
    block_on(async {
        let change = move |unit: &mut dyn Unit| unit.append(stream, &[event(1)]);
        opened.store.write(first, change).await.unwrap();
        let refused: Result<Head, StoreError> = opened.store.write(second, change).await;
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
        assert_eq!(places(&opened.store, stream).await, [1]);
    });
}

fn a_failed_operation_may_be_repeated(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    let operation = operation("test.again");
    block_on(async {
        let failed = opened
            .store
            .write(operation, move |unit| -> Result<Head, Own> {
                unit.append(stream, &[event(1)])?;
                Err(Own::Refused { at: 1 })
            })
            .await;
        assert!(matches!(failed, Err(Own::Refused { at: 1 })), "{failed:?}");
        let change = move |unit: &mut dyn Unit| unit.append(stream, &[event(1)]);
        let head: Head = opened.store.write(operation, change).await.unwrap();
        assert_eq!(head.stream_seq, 1);
    });
}

fn a_write_whose_caller_gave_up_is_done_once_when_repeated(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    let operation = operation("test.given-up");
    block_on(async {
        let change = move |unit: &mut dyn Unit| unit.append(stream, &[event(1)]);
        let sent = opened.store.write::<Head, StoreError, _>(operation, change);
        // Polled once: sent, and then nobody waits for the answer any more.
        let _ = tokio::time::timeout(Duration::ZERO, sent).await;
        let head: Head = opened.store.write(operation, change).await.unwrap();
        assert_eq!(head.stream_seq, 1);
        assert_eq!(places(&opened.store, stream).await, [1]);
    });
}

/// Says, when it goes, whether its thread goes down with it.
struct Witness(mpsc::Sender<bool>);

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::panicking());
    }
}

/// The store is then dropped by its own thread, which cannot wait for itself.
fn work_that_holds_the_last_of_a_store_ends_it(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let (go, gate) = mpsc::channel::<()>();
    let (witness, ended) = mpsc::channel();
    // In this order: the store goes while the witness is there.
    let held = (opened.store.clone(), Witness(witness));
    block_on(async {
        let sent = opened
            .store
            .write::<(), StoreError, _>(operation("test.last"), move |_| {
                let _ = (&held, gate.recv());
                Ok(())
            });
        let _ = tokio::time::timeout(Duration::ZERO, sent).await;
    });
    drop(opened);
    go.send(()).unwrap();
    assert_eq!(ended.recv_timeout(LIMIT), Ok(false));
}

fn every_caller_gets_its_own_answer(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(300, |number| {
            let store = opened.store.clone();
            async move { write(&store, move |_| Ok(number)).await }
        })
        .await;
        assert_eq!(answers, (0..300).collect::<Vec<_>>());
    });
}

fn one_failure_among_many_undoes_only_itself(backend: Backend) {
    const FAILING: usize = 31;
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    block_on(async {
        let answers = together(64, |number| {
            let store = opened.store.clone();
            async move {
                let change = move |unit: &mut dyn Unit| {
                    let head = unit.append(stream, &[event(number as i64)])?;
                    match number {
                        FAILING => Err(Own::Refused { at: 0 }),
                        _ => Ok(head.stream_seq),
                    }
                };
                store.write(operation("test.one-of-many"), change).await
            }
        })
        .await;
        let mut won = Vec::new();
        for (number, answer) in answers.into_iter().enumerate() {
            match (number, answer) {
                (FAILING, Err(Own::Refused { at: 0 })) => {}
                (_, Ok(place)) => won.push(place),
                (number, other) => panic!("{number}: {other:?}"),
            }
        }
        won.sort_unstable();
        assert_eq!(won, (1..64).collect::<Vec<i64>>());
        assert_eq!(places(&opened.store, stream).await, won);
    });
}

fn a_read_sees_one_state(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let (looked, looks) = mpsc::channel();
        let (written, writes) = mpsc::channel::<()>();
        let writes = std::sync::Mutex::new(writes);
        let look = {
            let store = opened.store.clone();
            tokio::spawn(async move {
                read(&store, move |unit| {
                    let before = unit.head(stream)?;
                    looked.send(()).unwrap();
                    // In memory reads and writes share one queue: the write comes afterwards.
                    if backend != Backend::Memory {
                        writes.lock().unwrap().recv_timeout(LIMIT).unwrap();
                    }
                    let events = unit.events(stream, 0, 10)?.len();
                    Ok((before, unit.head(stream)?, events))
                })
                .await
            })
        };
        looks.recv_timeout(LIMIT).unwrap();
        assert_eq!(append(&opened.store, stream, 2).await.stream_seq, 2);
        let _ = written.send(());
        let (before, after, count) = within(look).await.unwrap();
        assert_eq!(before, after);
        assert_eq!((after.stream_seq, count), (1, 1));
        assert_eq!(places(&opened.store, stream).await, [1, 2]);
    });
}

fn a_read_cannot_write(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let refused = opened
            .store
            .read(move |unit| unit.append(stream, &[event(2)]))
            .await;
        let left = places(&opened.store, stream).await;
        assert_eq!(left, [1], "a read wrote; it was answered {refused:?}");
        assert!(
            matches!(refused, Err(StoreError::NotWritable { .. })),
            "{refused:?}"
        );
        assert_eq!(append(&opened.store, stream, 2).await.stream_seq, 2);
    });
}

fn an_answered_write_is_seen_by_others_at_once(backend: Backend) {
    let place = Place::new(backend);
    let (one, other) = (place.open(), place.open());
    let stream = stream();
    block_on(async {
        for n in 1..=20 {
            let (writer, reader) = if n % 2 == 0 {
                (&one, &other)
            } else {
                (&other, &one)
            };
            let head = append(&writer.store, stream, n).await;
            let seen = read(&reader.store, move |unit| unit.head(stream)).await;
            assert_eq!((seen.stream_seq, &seen), (n, &head));
        }
    });
}

/// No verb can be made to fail by SQL from inside on every engine, so a table is taken away from
/// outside meanwhile; a database in memory has no outside.
fn a_swallowed_failure_of_a_statement_fails_the_write(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    let operation = operation("test.swallowed");
    let request = LockRequest {
        name: "a".to_owned(),
        owner: owner(),
        node: "here".to_owned(),
        ttl: Duration::from_secs(60),
        dead: None,
    };
    let change = move |unit: &mut dyn Unit| -> Result<(), StoreError> {
        let _ = unit.append(stream, &[event(1)]);
        let _ = unit.acquire_lock(&request);
        let _ = unit.append(stream, &[event(2)]);
        Ok(())
    };
    block_on(async {
        append(&opened.store, stream, 1).await;
        outside::run(&place, "ALTER TABLE locks RENAME TO taken_away");
        for operation in [operation, Operation::harmless("test.swallowed")] {
            let failed = opened.store.write(operation, change.clone()).await;
            assert!(
                matches!(&failed, Err(StoreError::Internal { reason }) if reason.contains("locks")),
                "{failed:?}"
            );
        }
        assert_eq!(places(&opened.store, stream).await, [1]);
        outside::run(&place, "ALTER TABLE taken_away RENAME TO locks");
        opened.store.write(operation, change).await.unwrap();
        assert_eq!(places(&opened.store, stream).await, [1, 2, 3]);
    });
}
