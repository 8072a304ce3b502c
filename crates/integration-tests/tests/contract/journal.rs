//! The journal: gap-free, chained, append-only.

use std::collections::BTreeSet;

use cleveragents_domain::event::payloads::{ActorErrored, PlanUnapplied, SandboxRemoved};
use cleveragents_domain::{ChainFault, Event, EventKind, NewEvent, StreamId};
use cleveragents_engine::journal::verify;
use cleveragents_integration_tests::samples::{event, payload, stream};
use cleveragents_integration_tests::store_access::{
    append, events, events_of_all, payload_of, read, run_concurrently, write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::journal::{EventHashInput, genesis_hash, payload_hash};
use cleveragents_ports::journal_verification::Verification;
use cleveragents_ports::{Cursor, StoreError, StoreHandle, StreamHead};

contract! {
    an_append_is_numbered_and_chained,
    several_events_of_one_append_follow_each_other,
    events_carry_the_time_of_the_database,
    streams_are_independent,
    an_unknown_stream_is_an_empty_one,
    an_append_of_nothing_changes_nothing,
    events_are_read_after_a_sequence_with_a_limit,
    the_newest_events_of_some_kinds_come_backwards,
    verification_knows_the_expected_head,
    sixty_four_appends_to_one_stream_leave_no_gap,
    appends_to_many_streams_at_once_leave_no_gap,
    all_events_come_once_in_pages,
    odd_text_reads_back_exactly,
}

pub(super) fn assert_chained(events: &[Event]) {
    let mut last = StreamHead {
        stream_seq: 0,
        hash: genesis_hash(),
    };
    for event in events {
        assert_eq!(event.stream_seq, last.stream_seq + 1);
        assert_eq!(event.prev_hash, last.hash);
        assert_eq!(event.hash, EventHashInput::of(event).hash());
        last = StreamHead {
            stream_seq: event.stream_seq,
            hash: event.hash.clone(),
        };
    }
}

pub(super) fn text(event: &Event) -> &str {
    event.payload.as_ref().map_or("(erased)", |text| text.get())
}

pub(super) async fn verify_stream(store: &StoreHandle, stream: StreamId) -> Verification {
    verify(store, stream, None).await.unwrap().unwrap()
}

fn an_append_is_numbered_and_chained(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        for n in 1..=10 {
            let head = append(&opened.store, stream, n).await;
            assert_eq!(head.stream_seq, n);
            let found = read(&opened.store, move |tx| tx.head(stream)).await;
            assert_eq!(found, head);
        }
        let found = events(&opened.store, stream).await;
        assert_chained(&found);
        for (event, n) in found.iter().zip(1..) {
            assert_eq!(event.stream, stream);
            assert_eq!((&event.kind, event.v), (&EventKind::StrategyApproved, 1));
            assert_eq!(event.actor, "tester");
            assert_eq!(text(event), payload(n));
            assert_eq!(event.payload_hash, payload_hash(&payload(n)));
        }
        let found = verify_stream(&opened.store, stream).await;
        assert_eq!((found.stream, found.events, found.purged), (stream, 10, 0));
    });
}

fn the_newest_events_of_some_kinds_come_backwards(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let removed = SandboxRemoved {
            sandbox_id: "01JZZZZZZZ0000000000000001".parse().unwrap(),
        };
        let unapplied = PlanUnapplied {
            apply_id: "01JZZZZZZZ0000000000000002".parse().unwrap(),
        };
        let of_kinds = [
            NewEvent::of("tester", &removed).unwrap(),
            NewEvent::of("tester", &unapplied).unwrap(),
            event(1),
        ];
        for n in 1..=9_usize {
            let event = of_kinds[n % 3].clone();
            write(&opened.store, move |tx| {
                tx.append(stream, std::slice::from_ref(&event))
            })
            .await;
        }
        let newest = |before, limit| {
            read(&opened.store, move |tx| {
                let kinds = [EventKind::SandboxRemoved, EventKind::PlanUnapplied];
                let found = tx.newest_events(stream, &kinds, before, limit)?;
                Ok(found.iter().map(|it| it.stream_seq).collect::<Vec<_>>())
            })
        };
        assert_eq!(newest(i64::MAX, 100).await, [9, 7, 6, 4, 3, 1]);
        assert_eq!(newest(i64::MAX, 2).await, [9, 7]);
        assert_eq!(newest(7, 2).await, [6, 4]);
        assert_eq!(newest(1, 2).await, Vec::<i64>::new());
    });
}

fn several_events_of_one_append_follow_each_other(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let (one, two) = write(&opened.store, move |tx| {
            let one = tx.append(stream, &[event(1), event(2), event(3)])?;
            Ok((one, tx.append(stream, &[event(4), event(5)])?))
        })
        .await;
        assert_eq!((one.stream_seq, two.stream_seq), (3, 5));
        let found = events(&opened.store, stream).await;
        assert_chained(&found);
        assert_eq!((&found[2].hash, &found[4].hash), (&one.hash, &two.hash));
        assert_eq!(
            found.iter().map(text).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5].map(payload)
        );
    });
}

fn events_carry_the_time_of_the_database(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let (before, after) = write(&opened.store, move |tx| {
            let before = tx.now()?;
            tx.append(stream, &[event(1)])?;
            Ok((before, tx.now()?))
        })
        .await;
        let at = events(&opened.store, stream).await[0].at;
        assert!(before <= at && at <= after, "{before} {at} {after}");
    });
}

fn streams_are_independent(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (stream(), stream());
    block_on(async {
        append(&opened.store, two, 1).await;
        append(&opened.store, one, 1).await;
        append(&opened.store, StreamId::System, 1).await;
        assert_eq!(append(&opened.store, one, 2).await.stream_seq, 2);
        let heads = [(one, 2), (two, 1), (StreamId::System, 1)];
        for (stream, seq) in heads {
            let head = read(&opened.store, move |tx| tx.head(stream)).await;
            assert_eq!(head.stream_seq, seq);
            assert_chained(&events(&opened.store, stream).await);
        }
        // The same event in another stream has another hash.
        let firsts = (
            &events(&opened.store, one).await[0],
            &events(&opened.store, two).await[0],
        );
        assert_ne!(firsts.0.hash, firsts.1.hash);
        let mut plans = [one, two];
        plans.sort_by_key(ToString::to_string);
        let known = read(&opened.store, |tx| tx.streams()).await;
        assert_eq!(known, [plans[0], plans[1], StreamId::System]);
    });
}

fn an_unknown_stream_is_an_empty_one(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let head = read(&opened.store, move |tx| tx.head(stream)).await;
        let empty = StreamHead {
            stream_seq: 0,
            hash: "0".repeat(64),
        };
        assert_eq!(head, empty);
        assert!(events(&opened.store, stream).await.is_empty());
        let found = verify_stream(&opened.store, stream).await;
        assert_eq!((found.events, found.head_hash), (0, genesis_hash()));
    });
}

fn an_append_of_nothing_changes_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (empty, used) = (stream(), stream());
    block_on(async {
        let one = append(&opened.store, used, 1).await;
        let nothing = |stream| write(&opened.store, move |tx| tx.append(stream, &[]));
        assert_eq!(nothing(used).await, one);
        assert_eq!(nothing(empty).await.stream_seq, 0);
        let known = read(&opened.store, |tx| tx.streams()).await;
        assert_eq!(known, [used], "only streams that have events");
        assert_eq!(verify_stream(&opened.store, used).await.events, 1);
        assert_eq!(append(&opened.store, empty, 1).await.stream_seq, 1);
    });
}

fn events_are_read_after_a_sequence_with_a_limit(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let ten: Vec<NewEvent> = (1..=10).map(event).collect();
        write(&opened.store, move |tx| tx.append(stream, &ten)).await;
        let cases = [
            ((0, 3), 1..4),
            ((3, 3), 4..7),
            ((9, 3), 10..11),
            ((10, 3), 0..0),
            ((99, 3), 0..0),
            ((5, 0), 0..0),
            ((-7, 2), 1..3),
            ((0, u32::MAX), 1..11),
        ];
        for ((after, limit), wanted) in cases {
            let found = read(&opened.store, move |tx| tx.events(stream, after, limit)).await;
            let places: Vec<i64> = found.iter().map(|event| event.stream_seq).collect();
            assert_eq!(
                places,
                wanted.collect::<Vec<_>>(),
                "after {after}, at most {limit}"
            );
        }
    });
}

fn verification_knows_the_expected_head(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let one = append(&opened.store, stream, 1).await;
        let two = append(&opened.store, stream, 2).await;
        let found = verify(&opened.store, stream, Some(two.hash.clone()))
            .await
            .unwrap();
        assert_eq!(found.unwrap().head_hash, two.hash);
        let found = verify(&opened.store, stream, Some(one.hash.clone()))
            .await
            .unwrap();
        let fault = ChainFault::NotExpected {
            stream,
            expected: one.hash,
            found: two.hash,
        };
        assert_eq!(found, Err(fault));
    });
}

fn sixty_four_appends_to_one_stream_leave_no_gap(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let heads = run_concurrently(64, |n| {
            let store = opened.store.clone();
            async move { append(&store, stream, n as i64).await.stream_seq }
        })
        .await;
        let places: BTreeSet<i64> = heads.into_iter().collect();
        assert_eq!(places, (1..=64).collect());
        let found = events(&opened.store, stream).await;
        let payloads: BTreeSet<String> = found.iter().map(|event| text(event).to_owned()).collect();
        assert_eq!(payloads, (0..64).map(payload).collect());
        assert_eq!(verify_stream(&opened.store, stream).await.events, 64);
    });
}

fn appends_to_many_streams_at_once_leave_no_gap(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let streams: Vec<StreamId> = (0..8).map(|_| stream()).collect();
    block_on(async {
        run_concurrently(64, |n| {
            let (store, one, other) = (opened.store.clone(), streams[n % 8], streams[(n + 3) % 8]);
            // Always in the same order, as every writer to two streams must to avoid deadlocks.
            let (first, second) = (one.min(other), one.max(other));
            async move {
                write(&store, move |tx| {
                    tx.append(first, &[event(1)])?;
                    tx.append(second, &[event(2), event(3)])
                })
                .await
            }
        })
        .await;
        let mut sum = 0;
        for stream in &streams {
            sum += verify_stream(&opened.store, *stream).await.events;
        }
        assert_eq!(sum, 64 * 3);
        let known = read(&opened.store, |tx| tx.streams()).await;
        assert_eq!(
            known.into_iter().collect::<BTreeSet<_>>(),
            streams.into_iter().collect()
        );
    });
}

fn all_events_come_once_in_pages(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let streams: Vec<StreamId> = (0..5).map(|_| stream()).collect();
    block_on(async {
        run_concurrently(20, |n| {
            let (store, stream) = (opened.store.clone(), streams[n % 5]);
            async move { write(&store, move |tx| tx.append(stream, &[event(1), event(2)])).await }
        })
        .await;
        for page in [1, 7, 40, 1000] {
            let found = events_of_all(&opened.store, 40, page).await;
            let cursors: Vec<Cursor> = found.iter().map(|(cursor, _)| *cursor).collect();
            assert!(cursors.is_sorted_by(|one, next| one < next), "{cursors:?}");
            for stream in &streams {
                let of_stream = found.iter().filter(|(_, event)| event.stream == *stream);
                let places: Vec<i64> = of_stream.map(|(_, event)| event.stream_seq).collect();
                assert_eq!(
                    places,
                    (1..=8).collect::<Vec<_>>(),
                    "in the order of the stream"
                );
            }
            let last = cursors[39];
            let rest = read(&opened.store, move |tx| tx.all_events(last, page)).await;
            assert!(rest.is_empty());
        }
    });
}

fn odd_text_reads_back_exactly(backend: Backend) {
    const ODD: [&str; 6] = [
        "",
        "\0",
        "é漢🦀",
        "a\0b\u{fdd0}0",
        "'; DROP TABLE events; --",
        "$1 ?1 %",
    ];
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        for actor in ODD {
            write(&opened.store, move |tx| {
                let errored = ActorErrored {
                    actor: "builtin/direct".parse().map_err(StoreError::internal)?,
                    step: 1,
                    reason: actor.to_owned(),
                };
                let event = NewEvent::of(actor, &errored).map_err(StoreError::internal)?;
                tx.append(stream, &[event])
            })
            .await;
        }
        let found = events(&opened.store, stream).await;
        for (event, actor) in found.iter().zip(ODD) {
            let errored: ActorErrored = payload_of(event);
            assert_eq!(
                (event.actor.as_str(), errored.reason.as_str()),
                (actor, actor)
            );
        }
        assert_eq!(verify_stream(&opened.store, stream).await.events, 6);
    });
}
