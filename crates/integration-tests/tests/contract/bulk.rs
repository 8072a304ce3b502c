//! Many events in one append, more than a single statement stores.

use cleveragents_integration_tests::samples::{event, payload, stream};
use cleveragents_integration_tests::store_access::{events, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::journal::{assert_chained, text, verify_stream};

contract! {
    many_events_of_one_append_follow_each_other,
}

fn many_events_of_one_append_follow_each_other(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        let head = write(&opened.store, move |tx| {
            tx.append(stream, &[event(1)])?;
            tx.append(stream, &(2..=257).map(event).collect::<Vec<_>>())
        })
        .await;
        let found = events(&opened.store, stream).await;
        assert_chained(&found);
        assert_eq!((head.stream_seq, &head.hash), (257, &found[256].hash));
        let texts: Vec<String> = found.iter().map(text).map(str::to_owned).collect();
        assert_eq!(texts, (1..=257).map(payload).collect::<Vec<_>>());
        assert!(found.is_sorted_by_key(|event| event.seq));
        assert_eq!(verify_stream(&opened.store, stream).await.events, 257);
    });
}
