//! Compares the acknowledged writes with the journal.

use std::collections::HashMap;

use cleveragents_domain::{Event, StreamId};
use cleveragents_engine::journal::verify;
use cleveragents_integration_tests::block_on;
use cleveragents_integration_tests::child::Ack;
use cleveragents_integration_tests::workload::HammerWrite;
use cleveragents_ports::StoreError;
use cleveragents_ports::StoreHandle;

/// The position of each write in the journal.
pub(crate) type WritePositions = HashMap<HammerWrite, (StreamId, i64)>;

/// Every stream verifies: gap-free, chained, payloads match their hashes.
pub(crate) fn assert_verified(store: &StoreHandle, streams: &[StreamId]) {
    block_on(async {
        for stream in streams {
            let verified = verify(store, *stream, None).await.unwrap();
            assert!(verified.is_ok(), "{verified:?}");
        }
    });
}

pub(crate) fn all_streams(store: &StoreHandle) -> Vec<StreamId> {
    let streams = store.read(|tx| tx.streams());
    block_on(streams).unwrap_or_else(|error: StoreError| panic!("{error}"))
}

/// The events of `stream` after `after`.
pub(crate) fn events(store: &StoreHandle, stream: StreamId, after: i64) -> Vec<Event> {
    let read = store.read(move |tx| tx.events(stream, after, u32::MAX));
    block_on(read).unwrap_or_else(|error: StoreError| panic!("{error}"))
}

/// Adds events to the known positions; a duplicate write fails the test.
pub(crate) fn add_events(places: &mut WritePositions, events: &[Event]) {
    for event in events {
        let write = HammerWrite::from_event(event).expect("an event with its payload whole");
        assert_eq!(write.stream().unwrap(), event.stream, "in another's stream");
        let twice = places.insert(write, (event.stream, event.stream_seq));
        assert_eq!(twice, None, "{write:?} is there twice");
    }
}

pub(crate) fn all_positions(store: &StoreHandle) -> WritePositions {
    let mut places = WritePositions::new();
    for stream in all_streams(store) {
        add_events(&mut places, &events(store, stream, 0));
    }
    places
}

/// Every acknowledged write is present at the acknowledged position.
pub(crate) fn assert_present(places: &WritePositions, acks: &[Ack]) {
    for ack in acks {
        let Some((_, stream_seq)) = places.get(&ack.write) else {
            panic!("acknowledged and lost: {ack:?}");
        };
        assert_eq!(*stream_seq, ack.stream_seq, "{ack:?} is elsewhere");
    }
}
