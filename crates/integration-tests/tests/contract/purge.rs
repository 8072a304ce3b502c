//! Payloads are erased only with a record of it, and the hash chain stays valid.

use cleveragents_domain::event::payloads::PayloadPurged;
use cleveragents_domain::{EventKind, StreamId};
use cleveragents_engine::journal::purge::PurgeRequest;
use cleveragents_engine::journal::{purge, verify};
use cleveragents_integration_tests::samples::{payload, stream};
use cleveragents_integration_tests::store_access::{append, events, payload_of, write};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Entity, Result, StoreError, StoreHandle, StreamHead};

use super::journal::{text, verify_stream};

contract! {
    a_purge_erases_payloads_on_the_record,
    an_impossible_purge_is_refused_entirely,
    a_second_purge_is_recorded_and_erases_nothing,
}

async fn purge_request(
    store: &StoreHandle,
    stream: StreamId,
    places: &[i64],
) -> Result<StreamHead> {
    let request = PurgeRequest {
        stream,
        places: places.to_vec(),
        reason: "asked to".to_owned(),
        actor: "keeper".to_owned(),
    };
    purge(store, new_operation("test.purge"), request).await
}

fn a_purge_erases_payloads_on_the_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        for n in 1..=4 {
            append(&opened.store, stream, n).await;
        }
        let before = events(&opened.store, stream).await;
        let head = purge_request(&opened.store, stream, &[3, 1, 3])
            .await
            .unwrap();
        assert_eq!(head.stream_seq, 5);
        let found = events(&opened.store, stream).await;
        let texts: Vec<&str> = found.iter().map(text).take(4).collect();
        assert_eq!(texts, ["(erased)", &payload(2), "(erased)", &payload(4)]);
        for (now, then) in found.iter().zip(&before) {
            assert_eq!(
                (&now.hash, &now.payload_hash),
                (&then.hash, &then.payload_hash)
            );
        }
        assert_eq!(
            (&found[4].kind, found[4].actor.as_str()),
            (&EventKind::PayloadPurged, "keeper")
        );
        let record: PayloadPurged = payload_of(&found[4]);
        assert_eq!(
            (record.places, record.reason.as_str()),
            (vec![3, 1, 3], "asked to")
        );
        let proof = verify(&opened.store, stream, Some(head.hash.clone()))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (proof.events, proof.purged, proof.head_hash),
            (5, 2, head.hash)
        );
    });
}

fn an_impossible_purge_is_refused_entirely(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        append(&opened.store, stream, 2).await;
        purge_request(&opened.store, stream, &[2]).await.unwrap();
        for impossible in [3, 4, 0, -1, i64::MAX, i64::MIN] {
            let refused = purge_request(&opened.store, stream, &[1, impossible]).await;
            let place = format!("{stream}/{impossible}");
            assert!(
                matches!(&refused, Err(StoreError::NotFound { entity: Entity::ErasableEvent, id }) if *id == place),
                "{impossible}: {refused:?}"
            );
        }
        let found = events(&opened.store, stream).await;
        assert_eq!((found.len(), text(&found[0])), (3, payload(1).as_str()));
        assert_eq!(verify_stream(&opened.store, stream).await.purged, 1);
    });
}

fn a_second_purge_is_recorded_and_erases_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let stream = stream();
    block_on(async {
        append(&opened.store, stream, 1).await;
        for record in 2..=3 {
            let head = purge_request(&opened.store, stream, &[1]).await.unwrap();
            assert_eq!(head.stream_seq, record);
        }
        let again = write(&opened.store, move |tx| tx.erase_payloads(stream, &[1])).await;
        assert_eq!(again, 0);
        let proof = verify_stream(&opened.store, stream).await;
        assert_eq!((proof.events, proof.purged), (3, 1));
    });
}
