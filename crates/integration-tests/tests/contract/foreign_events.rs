//! Events that another program wrote, through Python's `sqlite3` module or `psql`: they are read
//! back exactly, whatever their text and kind.

use cleveragents_domain::{Event, EventKind, PayloadOutcome, StreamId};
use cleveragents_integration_tests::samples::stream;
use cleveragents_integration_tests::store_access::{append, events};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, raw_sql};
use cleveragents_ports::journal::{EventHashInput, payload_hash};

use super::journal::{text, verify_stream};

contract! {
    durable:
    a_payload_reads_back_exactly,
    an_unknown_kind_is_kept,
}

/// Replaces the only event of `stream` with `event`, chained correctly.
fn replace_event(test_db: &TestDatabase, stream: StreamId, event: &Event) {
    let hash = EventHashInput::of(event).hash();
    let (kind, payload, payload_hash) = (&event.kind, text(event), &event.payload_hash);
    raw_sql::run_sql(
        test_db,
        &format!(
            "UPDATE events SET kind = '{kind}', payload = '{payload}', \
             payload_hash = '{payload_hash}', hash = '{hash}' WHERE stream = '{stream}'; \
             UPDATE streams SET head_hash = '{hash}' WHERE id = '{stream}'"
        ),
    );
}

fn a_payload_reads_back_exactly(backend: Backend) {
    const RAW: &str = "{ \"a\" : 1.0,\n \"b\":1e400, \"a\":\"\\u00001\", \"ü\":[] }";
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let mut event = events(&opened.store, stream).await.remove(0);
        event.payload = Some(serde_json::from_str(RAW).unwrap());
        event.payload_hash = payload_hash(RAW);
        replace_event(&test_db, stream, &event);
        let found = events(&opened.store, stream).await;
        assert_eq!(text(&found[0]), RAW);
        assert_eq!(verify_stream(&opened.store, stream).await.events, 1);
        assert!(found[0].read_body().is_err());
    });
}

fn an_unknown_kind_is_kept(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        let mut event = events(&opened.store, stream).await.remove(0);
        event.kind = EventKind::Unknown("plan_teleported".to_owned());
        replace_event(&test_db, stream, &event);
        let found = events(&opened.store, stream).await;
        assert_eq!(found[0].kind, event.kind);
        assert_eq!(found[0].read_body().unwrap(), PayloadOutcome::UnknownKind);
        assert_eq!(verify_stream(&opened.store, stream).await.events, 1);
    });
}
