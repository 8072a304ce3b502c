//! Tails: they see every event exactly once and in stream order, and block no writer.

use std::collections::BTreeMap;
use std::time::Duration;

use cleveragents_domain::{Event, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_integration_tests::samples::{event, payload, stream};
use cleveragents_integration_tests::store_access::{
    append, events_of_all, follow, run_concurrently, write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Cursor, StoreHandle};

contract! {
    a_tail_starts_at_its_cursor,
    a_tail_of_all_streams_sees_every_event,
    a_waiting_tail_is_woken,
    tails_beside_sixteen_writers_miss_nothing,
    a_tail_resumes_where_another_ended,
    a_cancelled_wait_loses_nothing,
    an_unread_tail_delays_no_writer;
    durable:
    a_tail_sees_writes_of_another_process,
}

fn sequences(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.stream_seq).collect()
}

/// The positions of each stream's events in order of arrival.
fn sequences_by_stream(events: &[Event]) -> BTreeMap<StreamId, Vec<i64>> {
    let mut places: BTreeMap<StreamId, Vec<i64>> = BTreeMap::new();
    for event in events {
        places
            .entry(event.stream)
            .or_default()
            .push(event.stream_seq);
    }
    places
}

async fn append_many(store: &StoreHandle, stream: StreamId, count: i64) {
    for n in 1..=count {
        append(store, stream, n).await;
    }
}

fn a_tail_starts_at_its_cursor(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append_many(&opened.store, stream, 5).await;
        append(&opened.store, StreamId::System, 1).await;
        let mut whole = Tail::of_stream(opened.store.clone(), stream, 0);
        assert_eq!(sequences(&follow(&mut whole, 5).await), [1, 2, 3, 4, 5]);
        let mut half = Tail::of_stream(opened.store.clone(), stream, 3);
        assert_eq!(sequences(&follow(&mut half, 2).await), [4, 5]);
        assert!(half.read_available().await.unwrap().is_empty());
        append(&opened.store, stream, 6).await;
        let next = follow(&mut half, 1).await;
        assert_eq!((next[0].stream_seq, next[0].stream), (6, stream));
        assert_eq!(next[0].payload.as_ref().unwrap().get(), payload(6));
    });
}

fn a_tail_of_all_streams_sees_every_event(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (stream(), stream());
    block_on(async {
        let mut early = Tail::of_all(opened.store.clone(), Cursor::default());
        append_many(&opened.store, one, 3).await;
        append_many(&opened.store, two, 2).await;
        append_many(&opened.store, one, 1).await;
        let mut late = Tail::of_all(opened.store.clone(), Cursor::default());
        for tail in [&mut early, &mut late] {
            let found: Vec<_> = follow(tail, 6).await;
            let found: Vec<_> = found.iter().map(|e| (e.stream, e.stream_seq)).collect();
            // Sequential writers, so the order over all streams is known, too.
            assert_eq!(
                found,
                [(one, 1), (one, 2), (one, 3), (two, 1), (two, 2), (one, 4)]
            );
            assert!(tail.read_available().await.unwrap().is_empty());
        }
    });
}

fn a_waiting_tail_is_woken(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let mut of_stream = Tail::of_stream(opened.store.clone(), stream, 0);
        let mut of_all = Tail::of_all(opened.store.clone(), Cursor::default());
        let waiting = tokio::spawn(async move {
            let both = tokio::join!(follow(&mut of_stream, 20), follow(&mut of_all, 20));
            (sequences(&both.0), sequences(&both.1))
        });
        append_many(&opened.store, stream, 20).await;
        let (one, all) = waiting.await.unwrap();
        assert_eq!(one, (1..=20).collect::<Vec<_>>());
        assert_eq!(all, one);
    });
}

fn tails_beside_sixteen_writers_miss_nothing(backend: Backend) {
    const EACH: i64 = 20;
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let streams: Vec<StreamId> = (0..4).map(|_| stream()).collect();
    block_on(async {
        let mut of_all = Tail::of_all(opened.store.clone(), Cursor::default());
        let mut of_one = Tail::of_stream(opened.store.clone(), streams[0], 0);
        let following = tokio::spawn(async move {
            let all = follow(&mut of_all, 16 * EACH as usize);
            tokio::join!(all, follow(&mut of_one, 4 * EACH as usize))
        });
        run_concurrently(16, |n| {
            let (store, stream) = (opened.store.clone(), streams[n % 4]);
            async move { append_many(&store, stream, EACH).await }
        })
        .await;
        let (all, one) = following.await.unwrap();
        let wanted: Vec<i64> = (1..=4 * EACH).collect();
        assert_eq!(sequences(&one), wanted);
        let all = sequences_by_stream(&all);
        assert_eq!(all.len(), 4);
        assert!(all.values().all(|places| *places == wanted), "{all:?}");
    });
}

fn a_tail_resumes_where_another_ended(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let streams = [stream(), stream()];
    block_on(async {
        // More than a tail reads at once, so that it stops in the middle.
        for stream in streams {
            let many: Vec<_> = (1..=600).map(event).collect();
            write(&opened.store, move |tx| tx.append(stream, &many)).await;
        }
        let mut tail = Tail::of_stream(opened.store.clone(), streams[0], 0);
        let first = sequences(&tail.next().await.unwrap());
        drop(tail);
        let last = *first.last().unwrap();
        assert!(last < 600, "a tail reads in portions");
        let mut tail = Tail::of_stream(opened.store.clone(), streams[0], last);
        let rest = sequences(&follow(&mut tail, 600 - first.len()).await);
        assert_eq!([first, rest].concat(), (1..=600).collect::<Vec<_>>());

        let all = events_of_all(&opened.store, 1200, 500).await;
        let (cursor, _) = all[699];
        let mut tail = Tail::of_all(opened.store.clone(), cursor);
        let rest: Vec<i64> = follow(&mut tail, 500).await.iter().map(|e| e.seq).collect();
        let wanted: Vec<i64> = all[700..].iter().map(|(_, event)| event.seq).collect();
        assert_eq!(rest, wanted);
    });
}

fn a_cancelled_wait_loses_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let mut tail = Tail::of_stream(opened.store.clone(), stream, 0);
        let mut found = Vec::new();
        for n in 1..=50 {
            append(&opened.store, stream, n).await;
            // Cancelled immediately, sometimes before and sometimes after the read completed.
            if let Ok(events) = tokio::time::timeout(Duration::ZERO, tail.next()).await {
                found.extend(sequences(&events.unwrap()));
            }
        }
        let missing = 50 - found.len();
        found.extend(sequences(&follow(&mut tail, missing).await));
        assert_eq!(found, (1..=50).collect::<Vec<_>>());
    });
}

fn an_unread_tail_delays_no_writer(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let mut lazy = Tail::of_stream(opened.store.clone(), stream, 0);
        let mut lazier = Tail::of_all(opened.store.clone(), Cursor::default());
        run_concurrently(10, |_| {
            let store = opened.store.clone();
            async move {
                for n in 0..50 {
                    write(&store, move |tx| tx.append(stream, &[event(n), event(n)])).await;
                }
            }
        })
        .await;
        let wanted: Vec<i64> = (1..=1000).collect();
        assert_eq!(sequences(&follow(&mut lazy, 1000).await), wanted);
        assert_eq!(sequences(&follow(&mut lazier, 1000).await), wanted);
    });
}

fn a_tail_sees_writes_of_another_process(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let (one, other) = (test_db.open(), test_db.open());
    let stream = stream();
    block_on(async {
        let mut of_stream = Tail::of_stream(other.store.clone(), stream, 0);
        let mut of_all = Tail::of_all(other.store.clone(), Cursor::default());
        for n in 1..=5 {
            append(&one.store, stream, n).await;
            assert_eq!(sequences(&follow(&mut of_stream, 1).await), [n]);
            assert_eq!(sequences(&follow(&mut of_all, 1).await), [n]);
        }
    });
}

/// On PostgreSQL numbers are assigned before commits: a smaller `seq` may become visible after a
/// larger one. A `psql` session acts as the slow writer.
mod postgres_only {
    use std::sync::{Mutex, mpsc};

    use cleveragents_integration_tests::raw_sql;
    use cleveragents_integration_tests::store_access::TIMEOUT;
    use cleveragents_integration_tests::test_database::psql;
    use cleveragents_ports::journal::{EventHashInput, genesis_hash, payload_hash};

    use super::*;

    /// Statements that write a stream of one event; `seq` is assigned by the server or given.
    fn one_event(stream: StreamId, seq: Option<&str>) -> String {
        let payload = payload(1);
        let payload_hash = payload_hash(&payload);
        let written = event(1);
        let link = EventHashInput {
            prev_hash: &genesis_hash(),
            stream,
            stream_seq: 1,
            kind: written.kind(),
            v: 1,
            at: cleveragents_integration_tests::samples::at(0),
            actor: "outsider",
            payload_hash: &payload_hash,
        };
        let hash = link.hash();
        let values = format!(
            "'{stream}', 1, '{}', 1, {}, 'outsider', '{payload}', '{payload_hash}', '{}', '{hash}'",
            link.kind,
            link.at.as_micros(),
            link.prev_hash,
        );
        let columns =
            "stream, stream_seq, kind, v, at, actor, payload, payload_hash, prev_hash, hash";
        let event = match seq {
            None => format!("INSERT INTO events ({columns}) VALUES ({values})"),
            Some(seq) => format!(
                "INSERT INTO events (seq, {columns}) OVERRIDING SYSTEM VALUE VALUES ({seq}, {values})"
            ),
        };
        format!("INSERT INTO streams VALUES ('{stream}', 1, '{hash}'); {event}")
    }

    #[test]
    fn an_older_transaction_that_commits_later_is_not_missed() {
        let test_db = TestDatabase::new(Backend::Postgres);
        let opened = test_db.open();
        let (slow, quick) = (stream(), stream());
        block_on(async {
            append(&opened.store, quick, 1).await;
            let mut tail = Tail::of_all(opened.store.clone(), Cursor::default());
            assert_eq!(sequences(&follow(&mut tail, 1).await), [1]);
            let mut outsider = raw_sql::PsqlSession::open(test_db.url.as_deref().unwrap());
            outsider.run("BEGIN");
            outsider.run(&one_event(slow, None));
            append(&opened.store, quick, 2).await;
            append(&opened.store, quick, 3).await;
            // A stream's own tail need not wait for other transactions; the tail of all streams
            // must.
            let mut of_quick = Tail::of_stream(opened.store.clone(), quick, 1);
            assert_eq!(sequences(&follow(&mut of_quick, 2).await), [2, 3]);
            assert!(tail.read_available().await.unwrap().is_empty());
            outsider.run("COMMIT");
            let found = follow(&mut tail, 3).await;
            let found: Vec<_> = found.iter().map(|e| (e.stream, e.stream_seq)).collect();
            assert_eq!(found, [(slow, 1), (quick, 2), (quick, 3)]);
            append(&opened.store, quick, 4).await;
            assert_eq!(sequences(&follow(&mut tail, 1).await), [4]);
        });
    }

    #[test]
    fn a_rolled_back_older_transaction_does_not_block_the_tail() {
        let test_db = TestDatabase::new(Backend::Postgres);
        let opened = test_db.open();
        let (slow, quick) = (stream(), stream());
        block_on(async {
            let mut tail = Tail::of_all(opened.store.clone(), Cursor::default());
            let mut outsider = raw_sql::PsqlSession::open(test_db.url.as_deref().unwrap());
            outsider.run("BEGIN");
            outsider.run(&one_event(slow, None));
            append(&opened.store, quick, 1).await;
            drop(outsider);
            let found = follow(&mut tail, 1).await;
            assert_eq!((found[0].stream, found[0].stream_seq), (quick, 1));
        });
    }

    #[test]
    fn a_smaller_number_in_a_later_transaction_is_not_missed() {
        let test_db = TestDatabase::new(Backend::Postgres);
        let opened = test_db.open();
        let url = test_db.url.as_deref().unwrap();
        let (late, quick) = (stream(), stream());
        block_on(async {
            let seq = psql(
                url,
                "SELECT nextval(pg_get_serial_sequence('events', 'seq'))",
            );
            let mut tail = Tail::of_all(opened.store.clone(), Cursor::default());
            append_many(&opened.store, quick, 2).await;
            let before = follow(&mut tail, 2).await;
            assert!(before.iter().all(|event| event.seq > seq.parse().unwrap()));
            psql(url, &one_event(late, Some(&seq)));
            let found = follow(&mut tail, 1).await;
            assert_eq!(
                (found[0].stream, found[0].seq),
                (late, seq.parse().unwrap())
            );
            append(&opened.store, quick, 3).await;
            assert_eq!(sequences(&follow(&mut tail, 1).await), [3]);
        });
    }

    /// The transaction that began first gets the smaller id, but its event comes later in the
    /// stream: an order by transaction alone would reverse the stream.
    #[test]
    fn a_late_append_keeps_the_stream_order() {
        assert_order_with_late_append(1);
    }

    /// Events stored in one statement keep their order as well.
    #[test]
    fn many_late_appends_keep_the_stream_order() {
        assert_order_with_late_append(25);
    }

    fn assert_order_with_late_append(count: i64) {
        let test_db = TestDatabase::new(Backend::Postgres);
        let opened = test_db.open();
        let stream = stream();
        block_on(async {
            let (began, begins) = mpsc::channel();
            let (go, goes) = mpsc::channel();
            let goes = Mutex::new(goes);
            let store = opened.store.clone();
            let older = tokio::spawn(async move {
                write(&store, move |tx| {
                    began.send(()).unwrap();
                    goes.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                    let events: Vec<_> = (0..count).map(|n| event(n + 2)).collect();
                    tx.append(stream, &events)
                })
                .await
            });
            begins.recv_timeout(TIMEOUT).unwrap();
            assert_eq!(append(&opened.store, stream, 1).await.stream_seq, 1);
            go.send(()).unwrap();
            assert_eq!(older.await.unwrap().stream_seq, count + 1);
            let mut tail = Tail::of_all(opened.store.clone(), Cursor::default());
            let wanted: Vec<i64> = (1..=count + 1).collect();
            assert_eq!(sequences(&follow(&mut tail, wanted.len()).await), wanted);
        });
    }
}
