//! Detects tampering with the journal from outside: SQLite through Python's `sqlite3` module,
//! PostgreSQL through `psql`. A memory database cannot be accessed from outside.

use cleveragents_domain::{ChainFault, StreamId};
use cleveragents_engine::journal::verify;
use cleveragents_integration_tests::samples::{event, stream};
use cleveragents_integration_tests::store_access::{append, events, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, raw_sql};
use cleveragents_ports::journal::{genesis_hash, payload_hash};
use cleveragents_ports::{StoreHandle, StreamHead};

contract! {
    durable:
    an_altered_fact_is_found,
    an_altered_payload_is_found,
    a_payload_that_is_no_json_is_found,
    a_payload_erased_without_a_record_is_found,
    altered_hashes_are_found,
    a_missing_event_is_found,
    an_altered_head_is_found,
    a_truncated_stream_with_a_forged_head_is_found,
}

/// A stream of four events.
async fn append_four(store: &StoreHandle) -> (StreamId, StreamHead) {
    let stream = stream();
    let four = [event(1), event(2), event(3), event(4)];
    let head = write(store, move |tx| tx.append(stream, &four)).await;
    (stream, head)
}

async fn verify_fault(store: &StoreHandle, stream: StreamId) -> ChainFault {
    verify(store, stream, None).await.unwrap().unwrap_err()
}

fn an_altered_fact_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for fact in [
            "kind = 'plan_applied'",
            "v = 2",
            "at = at + 1",
            "actor = 'somebody'",
        ] {
            let (stream, _) = append_four(&opened.store).await;
            let sql =
                format!("UPDATE events SET {fact} WHERE stream = '{stream}' AND stream_seq = 2");
            raw_sql::run_sql(&test_db, &sql);
            let expected = ChainFault::Altered {
                stream,
                stream_seq: 2,
            };
            assert_eq!(
                verify_fault(&opened.store, stream).await,
                expected,
                "{fact}"
            );
        }
        // Other streams are unaffected.
        let (stream, head) = append_four(&opened.store).await;
        let found = verify(&opened.store, stream, None).await.unwrap().unwrap();
        assert_eq!((found.events, found.head_hash), (4, head.hash));
    });
}

fn an_altered_payload_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (stream, _) = append_four(&opened.store).await;
        let forged = "{\"n\":9}";
        raw_sql::run_sql(
            &test_db,
            &format!(
                "UPDATE events SET payload = '{forged}' WHERE stream = '{stream}' AND stream_seq = 4"
            ),
        );
        let expected = ChainFault::PayloadAltered {
            stream,
            stream_seq: 4,
        };
        assert_eq!(verify_fault(&opened.store, stream).await, expected);
        // Adjusting the payload's hash only moves the mismatch to the event's hash.
        let hash = payload_hash(forged);
        raw_sql::run_sql(
            &test_db,
            &format!(
                "UPDATE events SET payload_hash = '{hash}' WHERE stream = '{stream}' AND stream_seq = 4"
            ),
        );
        let expected = ChainFault::Altered {
            stream,
            stream_seq: 4,
        };
        assert_eq!(verify_fault(&opened.store, stream).await, expected);
    });
}

fn a_payload_that_is_no_json_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for payload in ["{\"n\":", "", "rubbish"] {
            let (stream, _) = append_four(&opened.store).await;
            let sql = format!(
                "UPDATE events SET payload = '{payload}' WHERE stream = '{stream}' AND stream_seq = 2"
            );
            raw_sql::run_sql(&test_db, &sql);
            let found = verify(&opened.store, stream, None).await;
            let expected = ChainFault::PayloadAltered {
                stream,
                stream_seq: 2,
            };
            assert!(
                matches!(&found, Ok(Err(fault)) if *fault == expected),
                "{found:?}"
            );
        }
    });
}

fn a_payload_erased_without_a_record_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (stream, _) = append_four(&opened.store).await;
        let sql = format!(
            "UPDATE events SET payload = NULL WHERE stream = '{stream}' AND stream_seq = 3"
        );
        raw_sql::run_sql(&test_db, &sql);
        let expected = ChainFault::PayloadMissing {
            stream,
            stream_seq: 3,
        };
        assert_eq!(verify_fault(&opened.store, stream).await, expected);
    });
}

fn altered_hashes_are_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for column in ["hash", "prev_hash", "payload_hash"] {
            let (stream, _) = append_four(&opened.store).await;
            let sql = format!(
                "UPDATE events SET {column} = '{}' WHERE stream = '{stream}' AND stream_seq = 2",
                genesis_hash()
            );
            raw_sql::run_sql(&test_db, &sql);
            let stream_seq = 2;
            let expected = match column {
                "prev_hash" => ChainFault::Unlinked { stream, stream_seq },
                _ => ChainFault::Altered { stream, stream_seq },
            };
            assert_eq!(
                verify_fault(&opened.store, stream).await,
                expected,
                "{column}"
            );
        }
    });
}

fn a_missing_event_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for (missing, found) in [(1, 2), (2, 3), (3, 4)] {
            let (stream, _) = append_four(&opened.store).await;
            let sql =
                format!("DELETE FROM events WHERE stream = '{stream}' AND stream_seq = {missing}");
            raw_sql::run_sql(&test_db, &sql);
            let expected = ChainFault::Gap {
                stream,
                expected: missing,
                found,
            };
            assert_eq!(verify_fault(&opened.store, stream).await, expected);
        }
        let (stream, _) = append_four(&opened.store).await;
        let sql = format!("DELETE FROM events WHERE stream = '{stream}' AND stream_seq = 4");
        raw_sql::run_sql(&test_db, &sql);
        let expected = ChainFault::HeadDisagrees {
            stream,
            expected: 4,
            found: 3,
        };
        assert_eq!(verify_fault(&opened.store, stream).await, expected);
    });
}

fn an_altered_head_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let zeros = genesis_hash();
        let cases = [
            ("head_seq = 3".to_owned(), 3),
            ("head_seq = 5".to_owned(), 5),
            (format!("head_hash = '{zeros}'"), 4),
        ];
        for (change, expected) in cases {
            let (stream, _) = append_four(&opened.store).await;
            raw_sql::run_sql(
                &test_db,
                &format!("UPDATE streams SET {change} WHERE id = '{stream}'"),
            );
            let expected = ChainFault::HeadDisagrees {
                stream,
                expected,
                found: 4,
            };
            assert_eq!(
                verify_fault(&opened.store, stream).await,
                expected,
                "{change}"
            );
        }
    });
}

fn a_truncated_stream_with_a_forged_head_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (stream, head) = append_four(&opened.store).await;
        let third = events(&opened.store, stream).await[2].hash.clone();
        raw_sql::run_sql(
            &test_db,
            &format!(
                "DELETE FROM events WHERE stream = '{stream}' AND stream_seq = 4; \
                 UPDATE streams SET head_seq = 3, head_hash = '{third}' WHERE id = '{stream}'"
            ),
        );
        // The chain alone cannot detect it; a stored hash of the head can.
        assert!(verify(&opened.store, stream, None).await.unwrap().is_ok());
        let found = verify(&opened.store, stream, Some(head.hash.clone()))
            .await
            .unwrap();
        let expected = ChainFault::NotExpected {
            stream,
            expected: head.hash.clone(),
            found: third,
        };
        assert_eq!(found, Err(expected));
        // The event cannot be recreated either, because its time differs.
        assert_ne!(append(&opened.store, stream, 4).await.hash, head.hash);
    });
}
